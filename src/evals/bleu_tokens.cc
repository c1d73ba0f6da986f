// Each rule goes over the text once, from left to right, and what it has taken it does not look at again.
#include "evals/bleu_tokens.h"

#include <string_view>

#include "base/strings.h"
#include "evals/python_text.h"
#include "text/jinja/text_ops.h"
#include "text/unicode/unicode.h"

namespace hone::evals {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }

// Marks of ASCII that stand alone wherever they are: all but ' , - and .
bool is_ascii_mark(char c) {
  return (c >= '!' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Two characters for which `fits` holds are put apart as `made` says; bytes do as well as characters, as what is looked
// for is ASCII.
template <class Fits, class Made>
std::string parted(const std::string& text, const Fits& fits, const Made& made) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && fits(text[i], text[i + 1]))
      made(all, text[i], text[i + 1]), ++i;
    else
      all += text[i];
  }
  return all;
}

void behind_first(std::string& all, char a, char b) { all.append({a, ' ', b, ' '}); }

}  // namespace

std::string parted_as_english(const std::string& text, bool possessives) {
  std::string all;
  for (const char c : text) is_ascii_mark(c) ? all.append({' ', c, ' '}) : all.append(1, c);
  if (possessives) all = replace_all(std::move(all), "'s ", " 's ");
  all = parted(all, [](char a, char b) { return !is_ascii_digit(a) && is_point(b); }, behind_first);
  all = parted(all, [](char a, char b) { return is_point(a) && !is_ascii_digit(b); },
               [](std::string& to, char a, char b) { to.append({' ', a, ' ', b}); });
  return parted(all, [](char a, char b) { return is_ascii_digit(a) && b == '-'; }, behind_first);
}

std::string on_one_line(std::string text) {
  text = replace_all(std::move(text), "\n", " ");
  const char* entities[][2] = {{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [entity, character] : entities) text = replace_all(std::move(text), entity, character);
  return " " + text + " ";
}

namespace {

std::string without_breaks(std::string text) {
  text = replace_all(std::move(text), "<skipped>", "");
  return replace_all(std::move(text), "-\n", "");
}

bool is_number(char32_t c) {
  const text::Category category = text::category_of(c);
  return category == text::Nd || category == text::Nl || category == text::No;
}
bool is_punctuation(char32_t c) {
  const text::Category category = text::category_of(c);
  return category >= text::Pc && category <= text::Po;
}
bool is_symbol(char32_t c) {
  const text::Category category = text::category_of(c);
  return category >= text::Sm && category <= text::So;
}

std::string parted_everywhere(const std::string& text) {
  std::u32string before = code_points(text), after;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool fits = i + 1 < before.size() && !is_number(before[i]) && is_punctuation(before[i + 1]);
    fits ? after.append({before[i], U' ', before[i + 1], U' '}) : after.append(1, before[i]);
    i += fits;
  }
  before.swap(after), after.clear();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool fits = i + 1 < before.size() && is_punctuation(before[i]) && !is_number(before[i + 1]);
    fits ? after.append({U' ', before[i], U' ', before[i + 1]}) : after.append(1, before[i]);
    i += fits;
  }
  before.clear();
  for (const char32_t c : after) is_symbol(c) ? before.append({U' ', c, U' '}) : before.append(1, c);
  return as_utf8(before);
}

// As sacrebleu has them. Of two of its ranges the ends were meant to lie beyond 16 bits: as they are written they are
// those of another character, and the range is one of a few.
bool is_chinese(char32_t c) {
  constexpr text::Range kRanges[] = {
      {0x3400, 0x4DB5}, {0x4E00, 0x9FA5}, {0x9FA6, 0x9FBB}, {0xF900, 0xFA2D}, {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9},
      {0x2001, 0x2A6D}, {0x2F81, 0x2FA1}, {0xFF00, 0xFFEF}, {0x2E80, 0x2EFF}, {0x3000, 0x303F}, {0x31C0, 0x31EF},
      {0x2F00, 0x2FDF}, {0x2FF0, 0x2FFF}, {0x3100, 0x312F}, {0x31A0, 0x31BF}, {0xFE10, 0xFE1F}, {0xFE30, 0xFE4F},
      {0x2600, 0x26FF}, {0x2700, 0x27BF}, {0x3200, 0x32FF}, {0x3300, 0x33FF}};
  for (const text::Range& one : kRanges)
    if (c >= one.first && c <= one.last) return true;
  return false;
}

std::string with_spaces(const std::string& text, bool (*apart)(char32_t)) {
  std::u32string all;
  for (const char32_t c : code_points(text)) apart(c) ? all.append({U' ', c, U' '}) : all.append(1, c);
  return as_utf8(all);
}

}  // namespace

std::vector<std::string> bleu_tokens(const std::string& given, BleuTokens how) {
  const std::string text(jinja::strip(given, {}, jinja::Side::right));
  switch (how) {
    case BleuTokens::v13a:
      return python_split(parted_as_english(on_one_line(without_breaks(text))));
    case BleuTokens::intl:
      return python_split(parted_everywhere(text));
    case BleuTokens::zh:
      return python_split(parted_as_english(with_spaces(text, is_chinese)));
    case BleuTokens::character:
      return python_split(with_spaces(text, [](char32_t) { return true; }));
    case BleuTokens::none:
      break;
  }
  return python_split(text);
}

}  // namespace hone::evals
