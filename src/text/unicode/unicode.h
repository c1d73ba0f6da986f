// Code points: UTF-8 in and out, general categories and the character classes that tokenizers cut by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hone::text {

enum Category : std::uint8_t {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn
};
struct Range {
  char32_t first, last;  // both inside
};

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;
inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";  // U+FFFD

// The classes of a code point as bits; made once, on first use.
enum : std::uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kWord = 8,
  kDigitCut = 16,
  kPunctuationCut = 32,
  kCombiningMark = 64
};
const std::uint8_t* class_table();  // kMaxCodePoint + 1 entries
Category category_of(char32_t c);

// Further classes, each with a table of its own that is made on first use.
enum : std::uint8_t { kBertDropped = 1, kBertBlank = 2, kBertMark = 4 };
const std::uint8_t* bert_table();  // kMaxCodePoint + 1 entries
enum : std::uint8_t {
  kJoins = 1,
  kPrepends = 2,
  kControls = 4,
  kPicture = 8,
  kConsonant = 16,
  kVirama = 32,
  kSpacing = 64
};
const std::uint8_t* grapheme_table();  // kMaxCodePoint + 1 entries
// UnicodeScripts' group of scripts; 0: in every group.
int script_group(char32_t c);
// Ranges of a script ("oldhungarian", "han") or nothing when its name is not known here.
std::span<const Range> script_ranges(std::string_view name);

// One code point of well-formed UTF-8 at `at`; moves `at` behind it. REQUIRES: at < text.size().
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return ++at, lead;
  if (lead < 0xE0) return at += 2, (lead & 0x1F) << 6 | (text[at - 1] & 0x3F);
  if (lead < 0xF0) {
    const char32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    return at += 3, c;
  }
  const char32_t c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  return at += 4, c;
}
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
// Bytes of the code point that begins with this byte.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// The code point that ends at `end`. REQUIRES: 0 < end.
inline char32_t code_point_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && is_continuation(text[at])) --at;
  return next_code_point(text, at);
}
void append_utf8(std::string& to, char32_t c);

// Lower case as Rust's char::to_lowercase: one code point, but two for U+0130 (then `second` is set, else 0).
char32_t lower_case(char32_t c, char32_t& second);

// The 256 characters that stand for bytes in byte-level vocabularies, and back (-1: none).
const char32_t* byte_characters();
int byte_of_character(char32_t c);

// Bytes as text: each maximal ill-formed part becomes U+FFFD, as Rust's String::from_utf8_lossy.
std::string lossy_utf8(std::string_view bytes);

}  // namespace hone::text
