#include "text/form/regex_classes.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::text {
namespace {

CharSet one(char32_t c) {
  CharSet set;
  set.add(c, c);
  return set;
}

CharSet ascii_set(char letter) {
  if (letter == 'd') return CharSet(std::vector<Range>{{'0', '9'}});
  if (letter == 's') return CharSet(std::vector<Range>{{'\t', '\r'}, {' ', ' '}});
  return CharSet(std::vector<Range>{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
}

// str.isdecimal(), str.isspace(), and str.isalnum() with the underscore.
CharSet python_set(char letter) {
  if (letter == 'd') return *property("Nd");
  if (letter == 's') {
    CharSet blanks = *property("Z");
    blanks.add('\t', '\r'), blanks.add(0x1C, 0x1F), blanks.add(0x85, 0x85);
    return blanks;
  }
  CharSet word = *property("L");
  word.add(*property("N"));
  word.add('_', '_');
  return word;
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_octal(char c) { return c >= '0' && c <= '7'; }

// \x41, \u0041, \U00000041.
char32_t take_hex(std::string_view pattern, std::size_t& at, std::size_t digits, const FailAt& fail) {
  char32_t value = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    if (at >= pattern.size() || !is_hex(pattern[at])) fail(fmt::format("an escape of fewer than {} digits", digits));
    const char c = pattern[at];
    value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  if (value > kMaxCodePoint) fail("a character beyond U+10FFFF");
  return value;
}

CharSet named_set(std::string_view pattern, std::size_t& at, bool negated, const FailAt& fail) {
  const std::size_t close = pattern.find('}', at);
  if (at >= pattern.size() || pattern[at] != '{' || close == std::string_view::npos) fail("\\p without its {name}");
  const std::string_view name = pattern.substr(at + 1, close - at - 1);
  const std::optional<CharSet> found = property(name);
  if (!found) fail(fmt::format("no such property: {}", hone::quoted(name)));
  at = close + 1;
  return negated ? found->complement() : *found;
}

std::optional<char32_t> control(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    default:
      return std::nullopt;
  }
}

// Of one character, which a range may begin or end with.
std::optional<char32_t> single(const CharSet& set) {
  const auto& ranges = set.ranges();
  if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return std::nullopt;
  return ranges[0].first;
}

}  // namespace

CharSet RegexClasses::dot() const {
  CharSet ends;
  if (dot_is_all) return ends.complement();
  ends.add('\n', '\n');
  if (ecma) ends.add('\r', '\r'), ends.add(0x2028, 0x2029);
  return ends.complement();
}

CharSet RegexClasses::shorthand(char letter) const {
  if (letter >= 'a') return ecma || ascii ? ascii_set(letter) : python_set(letter);
  const char positive = static_cast<char>(letter + 32);
  if (ascii) return ascii_set(positive).complement();
  CharSet set = python_set(positive);
  if (ecma) set.add(0xFEFF, 0xFEFF);
  return set.complement();
}

CharSet read_escape(std::string_view pattern, std::size_t& at, const RegexClasses& classes, bool in_class,
                    const FailAt& fail) {
  if (at >= pattern.size()) fail("a \\ at the end");
  const char32_t c = next_code_point(pattern, at);
  const char letter = c < 0x80 ? static_cast<char>(c) : '\0';
  if (c >= 0x80) return one(c);
  if (letter == 'd' || letter == 'w' || letter == 's' || letter == 'D' || letter == 'W' || letter == 'S')
    return classes.shorthand(letter);
  if (const auto known = control(letter)) return one(*known);
  if (letter == 'b' && in_class) return one('\b');
  if (letter == 'x') return one(take_hex(pattern, at, 2, fail));
  if (letter == 'u') return one(take_hex(pattern, at, 4, fail));
  if (letter == 'U') return one(take_hex(pattern, at, 8, fail));
  if (letter == 'p' || letter == 'P') return named_set(pattern, at, letter == 'P', fail);
  if (is_octal(letter) && (letter == '0' || in_class)) {
    char32_t value = static_cast<char32_t>(letter - '0');
    for (int i = 0; i < 2 && at < pattern.size() && is_octal(pattern[at]); ++i, ++at)
      value = value * 8 + static_cast<char32_t>(pattern[at] - '0');
    if (value > 0xFF) fail("an octal escape above \\377");
    return one(value);
  }
  if ((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))
    fail(fmt::format("no such escape: {}", hone::quoted("\\" + std::string(1, letter))));
  return one(c);
}

CharSet read_class(std::string_view pattern, std::size_t& at, const RegexClasses& classes, const FailAt& fail) {
  const auto is = [&](char c) { return at < pattern.size() && pattern[at] == c; };
  const auto element = [&] {
    if (at >= pattern.size()) fail("a [ without its ]");
    if (is('\\')) return read_escape(pattern, ++at, classes, /*in_class=*/true, fail);
    return one(next_code_point(pattern, at));
  };
  const bool negated = is('^');
  if (negated) ++at;
  CharSet set;
  for (bool first = true; first || !is(']'); first = false) {
    const CharSet begin = element();
    const bool is_range = is('-') && at + 1 < pattern.size() && pattern[at + 1] != ']';
    if (!is_range) {
      set.add(begin);
      continue;
    }
    ++at;
    const auto low = single(begin), high = single(element());
    if (!low || !high) fail("a range that does not begin and end with a character");
    if (*high < *low) fail("a range that ends before it begins");
    set.add(*low, *high);
  }
  ++at;
  return negated ? set.complement() : set;
}

}  // namespace hone::text
