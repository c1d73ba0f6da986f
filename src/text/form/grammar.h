// A language of texts as automata over the bytes of UTF-8 that call each other: what regular expressions and JSON
// Schemas become.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/char_set.h"

namespace hone::text {

// A value. Rule 0 is the whole text; a rule's text leads from its entry to its exit.
struct Grammar {
  struct Bytes {
    std::int32_t to;
    std::uint8_t low, high;  // both inside
  };
  struct Call {
    std::int32_t to, rule;  // to: where it goes on behind a text of the rule
  };
  struct Node {
    std::vector<Bytes> bytes = {};
    std::vector<Call> calls = {};
    std::vector<std::int32_t> empty = {};  // leads there by nothing
  };
  struct Rule {
    std::int32_t entry = -1, exit = -1;
  };
  std::vector<Node> nodes;
  std::vector<Rule> rules;
};

// Makes a grammar; parts lie between nodes that the caller names. One thread.
class GrammarBuilder {
 public:
  // what: begins the message of the Error(config) that is thrown where it becomes too large.
  explicit GrammarBuilder(std::string what) : what_(std::move(what)) {}

  std::int32_t node();
  std::int32_t rule();  // with an entry and an exit, and nothing between them yet
  const Grammar::Rule& at(std::int32_t rule) const { return made_.rules[static_cast<std::size_t>(rule)]; }
  void empty(std::int32_t from, std::int32_t to);
  void call(std::int32_t from, std::int32_t to, std::int32_t rule);
  void bytes(std::int32_t from, std::int32_t to, std::uint8_t low, std::uint8_t high);
  void text(std::int32_t from, std::int32_t to, std::string_view text);
  // Any one of these characters. Surrogates, which are none in UTF-8, are left out.
  void character(std::int32_t from, std::int32_t to, const CharSet& set);
  // All that is between the nodes of another grammar; returns the rule of its whole text.
  std::int32_t add(const Grammar& other);
  Grammar take() { return std::move(made_); }

 private:
  void sequences(std::int32_t from, std::int32_t to, const Range& range);
  std::int32_t step(std::int32_t from, std::uint8_t low, std::uint8_t high);
  std::string what_;
  Grammar made_;
  std::map<std::vector<std::uint32_t>, std::int32_t> sets_;  // rules of characters beyond ASCII, by their ranges
};

// What a regular expression matches as a whole, in the syntax and meaning of Python's `re` for texts. Look-around,
// back-references, atomic groups, \b and anchors that are not at an end are refused, as are flags but for (?s), (?a)
// and (?u). Error(config) that begins with `what`.
Grammar grammar_of_regex(std::string_view pattern, const std::string& what);

// The texts of JSON by a JSON Schema, a text of JSON itself. What of the schema cannot be held is refused by its name
// and path: Error(config) that begins with `what`.
Grammar grammar_of_json_schema(std::string_view schema, const std::string& what);

}  // namespace hone::text
