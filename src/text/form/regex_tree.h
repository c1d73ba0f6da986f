// Regular expressions as a tree, read in the syntax of Python's `re` or of ECMAScript, which JSON Schemas use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/form/grammar.h"
#include "text/unicode/char_set.h"

namespace hone::text {

struct RegexTree {
  enum class Kind { nothing, characters, join, either, repeat, begin, end };  // begin, end: anchors
  struct Part {
    Kind kind = Kind::nothing;
    std::int32_t set = -1;                  // of characters
    std::vector<std::int32_t> parts = {};   // of join and either; of repeat one
    std::int64_t least = 0, most = 0;       // of repeat; most below 0: any number of times
  };
  std::vector<Part> parts;
  std::vector<CharSet> sets;
  std::int32_t root = 0;
};

// ecma: \d, \w and \s are of ASCII, and . is no line's end of any kind: what Python's `re` and ECMAScript both match.
RegexTree read_regex(std::string_view pattern, const std::string& what, bool ecma = false);

// How a character of a set is written.
using Spell = std::function<void(std::int32_t from, std::int32_t to, const CharSet& set)>;

struct RegexUse {
  const std::string& what;
  bool searches = false;  // a match anywhere in the text is enough
};
// Puts the language between two nodes.
void build_regex(const RegexTree& tree, GrammarBuilder& builder, std::int32_t from, std::int32_t to, const Spell& spell,
                 const RegexUse& use);

}  // namespace hone::text
