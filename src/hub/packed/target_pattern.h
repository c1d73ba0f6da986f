// Regular expressions of a folder, which may be anybody's: matched in a time that grows with the text's and the
// expression's lengths alone, whatever they say, as all that may have matched so far is followed at once.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hone::hub {

// Python's, as far as names need them: literals, escapes as \. \d \w \s, ., classes, groups, |, the quantifiers * + ?
// and {m,n} (lazy ones, too), ^, $, and at the beginning groups that look ahead, (?=...) and (?!...).
class TargetPattern {
 public:
  // Throws std::invalid_argument that says what of it is no expression, or not read: back-references, looking behind,
  // flags, more than 1,000 characters or 1,000 steps.
  explicit TargetPattern(std::string_view expression);
  // Of a part of the text from its beginning on, as Python's re.match.
  bool matches(std::string_view text) const;
  std::size_t size() const { return steps_.size(); }  // steps, of which each is followed for a character at most once

 private:
  friend class PatternCompiler;
  // One of a character is a step on; any other says where to go on without one.
  struct Step {
    enum class Kind { one_of, fork, go, begin, end, ahead, not_ahead, done } kind;
    std::size_t to = 0, or_to = 0;  // fork: both; ahead: to is behind it, and it begins at the next step
    std::bitset<256> set = {};      // of one_of
  };
  class Run;
  std::vector<Step> steps_;
};

}  // namespace hone::hub
