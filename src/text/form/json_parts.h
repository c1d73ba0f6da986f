// What texts of JSON are made of: blanks, strings and values of any kind, as rules that are made once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/form/grammar.h"

namespace hone::text {

// Nothing, a blank, or a line's end with at most this many blanks: what models write, and no way to write blanks on and
// on.
inline constexpr int kMostIndent = 40;

class JsonParts {
 public:
  JsonParts(GrammarBuilder& builder, const std::string& what) : builder_(builder), what_(what) {}

  void blank(std::int32_t from, std::int32_t to) { builder_.call(from, to, blank_rule()); }
  void any(std::int32_t from, std::int32_t to) { builder_.call(from, to, any_rule()); }
  void any_object(std::int32_t from, std::int32_t to) { builder_.call(from, to, object_rule()); }
  void any_array(std::int32_t from, std::int32_t to) { builder_.call(from, to, array_rule()); }
  void string(std::int32_t from, std::int32_t to) { builder_.call(from, to, string_rule()); }
  // Of so many characters; most: any number where there is none.
  void string(std::int32_t from, std::int32_t to, std::int64_t least, std::optional<std::int64_t> most);
  // In which a pattern of ECMAScript has a match; whole: that it matches as a whole.
  void pattern(std::int32_t from, std::int32_t to, std::string_view pattern, bool whole);
  // Text that has no character that is escaped.
  void regex(std::int32_t from, std::int32_t to, const std::string& pattern);
  // Any name but these, and without escapes, in quotes.
  void other_name(std::int32_t from, std::int32_t to, const std::vector<std::string>& names);
  std::int32_t text(std::int32_t from, std::string_view text);  // leads to a new node

 private:
  std::int32_t blank_rule();
  std::int32_t any_rule();
  std::int32_t object_rule();
  std::int32_t array_rule();
  std::int32_t string_rule();
  std::int32_t escape_rule();
  void character(std::int32_t from, std::int32_t to);
  void spell(std::int32_t from, std::int32_t to, const CharSet& set);
  void hex(std::int32_t from, std::int32_t to, std::string_view first, std::string_view second);

  GrammarBuilder& builder_;
  const std::string& what_;
  std::optional<std::int32_t> blank_, any_, object_, array_, string_, escape_;
  std::map<std::vector<char32_t>, std::int32_t> escaped_;  // rules, by what they write
};

}  // namespace hone::text
