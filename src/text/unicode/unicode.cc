// The tables behind unicode.h: built once from unicode_data.inc, lower case from unicode_forms.inc.
#include "text/unicode/unicode.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "text/unicode/case_tables.h"

namespace hone::text {
namespace {

struct Run {
  char32_t first;
  Category category;
};
#include "text/unicode/unicode_data.inc"

struct Tables {
  std::vector<std::uint8_t> category, classes;
  std::vector<Range> space;

  Tables() : category(kMaxCodePoint + 1), classes(kMaxCodePoint + 1) {
    for (std::size_t i = 0; i < std::size(kCategories); ++i) {
      const char32_t end = i + 1 < std::size(kCategories) ? kCategories[i + 1].first : kMaxCodePoint + 1;
      const Category which = kCategories[i].category;
      std::fill(category.begin() + kCategories[i].first, category.begin() + end, which);
      std::fill(classes.begin() + kCategories[i].first, classes.begin() + end, bits(which));
    }
    for (const char c : std::string_view("$+<=>^`|~")) classes[static_cast<unsigned char>(c)] |= kPunctuationCut;
    for (const char32_t c : {0x9, 0xA, 0xB, 0xC, 0xD, 0x85}) classes[c] |= kSpace;
    set(kWordExtra, kWord);
    set(kNumberExtra, kDigitCut);
    set(kPunctuationExtra, kPunctuationCut);
    set(kMarkExtra, kCombiningMark);
    clear(kNotPunctuation, kPunctuationCut);
    clear(kNotMark, kCombiningMark);
  }

  static std::uint8_t bits(Category c) {
    if (c <= Lo) return kLetter | kWord;
    if (c <= Me) return kCombiningMark | kWord;
    if (c <= No) return kNumber | kDigitCut | (c == No ? 0 : kWord);
    if (c <= Po) return kPunctuationCut | (c == Pc ? kWord : 0);
    return c >= Zs && c <= Zp ? kSpace : 0;
  }
  void set(std::span<const Range> ranges, std::uint8_t bit) {
    for (const Range& r : ranges)
      for (char32_t c = r.first; c <= r.last; ++c) classes[c] |= bit;
  }
  void clear(std::span<const Range> ranges, std::uint8_t bit) {
    for (const Range& r : ranges)
      for (char32_t c = r.first; c <= r.last; ++c) classes[c] &= static_cast<std::uint8_t>(~bit);
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

// GPT-2's table: printable Latin-1 characters stand for themselves, the other bytes for U+0100 and up.
struct ByteCharacters {
  std::array<char32_t, 256> of_byte{};
  std::array<std::int16_t, 512> to_byte{};

  ByteCharacters() {
    to_byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      of_byte[b] = itself ? static_cast<char32_t>(b) : next++;
      to_byte[of_byte[b]] = static_cast<std::int16_t>(b);
    }
  }
};
const ByteCharacters& byte_table() {
  static const ByteCharacters made;
  return made;
}

// Length of the well-formed code point at `at`, or 0 and in `bad` the length of the maximal ill-formed part.
std::size_t well_formed(std::string_view text, std::size_t at, std::size_t& bad) {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const unsigned lead = byte(0);
  bad = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (bad = 2; bad < length; ++bad)
    if ((byte(bad) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

const std::uint8_t* class_table() { return tables().classes.data(); }
Category category_of(char32_t c) { return c <= kMaxCodePoint ? static_cast<Category>(tables().category[c]) : Cn; }

void append_utf8(std::string& to, char32_t c) {
  if (c < 0x80) {
    to += static_cast<char>(c);
  } else if (c < 0x800) {
    to += static_cast<char>(0xC0 | c >> 6);
    to += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    to += static_cast<char>(0xE0 | c >> 12);
    to += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    to += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    to += static_cast<char>(0xF0 | c >> 18);
    to += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    to += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    to += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t lower_case(char32_t c, char32_t& second) {
  second = 0;
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c == 0x130) return second = 0x307, 0x69;
  static const std::vector<char32_t> table = make_lower_case();
  return c < table.size() ? table[c] : c;
}

const char32_t* byte_characters() { return byte_table().of_byte.data(); }
int byte_of_character(char32_t c) { return c < 512 ? byte_table().to_byte[c] : -1; }

std::string lossy_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0, bad = 0; at < bytes.size();) {
    if (const std::size_t length = well_formed(bytes, at, bad)) {
      text.append(bytes.substr(at, length));
      at += length;
    } else {
      text += kReplacementChar;
      at += bad;
    }
  }
  return text;
}

}  // namespace hone::text
