#include "evals/python_text.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace hone::evals {
namespace {

constexpr char32_t kSigma = 0x3A3, kLastSigma = 0x3C2;

bool is_cased(char32_t c) {
  const text::Category category = text::category_of(c);
  return category == text::Lu || category == text::Ll || category == text::Lt;
}

// What may stand between a letter and the end of its word.
bool is_passed_over(char32_t c) {
  constexpr char32_t kMarks[] = {U'\'', U'.', U':', U'^', U'`', 0xA8, 0xAD, 0xAF, 0xB4, 0xB7, 0xB8, 0x2018, 0x2019,
                                 0x2024, 0x2027};
  if (std::find(std::begin(kMarks), std::end(kMarks), c) != std::end(kMarks)) return true;
  switch (text::category_of(c)) {
    case text::Mn:
    case text::Me:
    case text::Cf:
    case text::Lm:
    case text::Sk:
      return true;
    default:
      return false;
  }
}

// Whether a letter is the nearest on the left of a capital sigma, and none on its right: it ends a word.
bool ends_word(const std::u32string& text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_passed_over(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && is_passed_over(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string all;
  for (std::size_t at = 0; at < text.size();) all += text::next_code_point(text, at);
  return all;
}

std::string as_utf8(std::u32string_view text) {
  std::string made;
  for (const char32_t c : text) text::append_utf8(made, c);
  return made;
}

std::string python_lower(std::string_view text) {
  const std::u32string all = code_points(text);
  std::string made;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kSigma && ends_word(all, i)) {
      text::append_utf8(made, kLastSigma);
      continue;
    }
    char32_t second = 0;
    text::append_utf8(made, text::lower_case(all[i], second));
    if (second != 0) text::append_utf8(made, second);
  }
  return made;
}

bool is_python_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::string> python_split(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const bool is_space = is_python_space(text::next_code_point(text, at));
    if (!is_space && !inside) words.emplace_back();
    if (!is_space) words.back() += text.substr(begin, at - begin);
    inside = !is_space;
  }
  return words;
}

std::string_view python_strip_end(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();)
    if (!is_python_space(text::next_code_point(text, at))) end = at;
  return text.substr(0, end);
}

}  // namespace hone::evals
