// Sets of code points, as character classes of regular expressions name them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/unicode.h"

namespace hone::text {

// A value: ranges in order, never touching.
class CharSet {
 public:
  CharSet() = default;
  explicit CharSet(std::span<const Range> ranges) {
    for (const Range& r : ranges) add(r.first, r.last);
  }
  void add(char32_t first, char32_t last);
  void add(const CharSet& other) {
    for (const Range& r : other.ranges_) add(r.first, r.last);
  }
  CharSet complement() const;
  CharSet intersection(const CharSet& other) const;
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// What \p{name}, [[:name:]] and \s \d \w \h mean in Oniguruma; nothing: a name that is not known here.
std::optional<CharSet> property(std::string_view name);
std::optional<CharSet> posix_class(std::string_view name);
std::optional<CharSet> shorthand(char letter);  // 's', 'd', 'w', 'h' and, as complements, their capitals

// A class for PCRE2 that holds exactly these code points.
std::string to_pcre2(const CharSet& set);

}  // namespace hone::text
