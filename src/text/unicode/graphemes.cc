// The rules of UAX 29, asked at each place between two characters.
#include "text/unicode/graphemes.h"

#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

enum Hangul { kNoHangul, kL, kV, kT, kLV, kLVT };

Hangul hangul_of(char32_t c) {
  if (c == 0x16D63 || (c >= 0x16D67 && c <= 0x16D6A)) return kV;  // Kirat Rai's vowels behave like Hangul's
  if (c < 0x1100 || c > 0xD7FB) return kNoHangul;
  if (c <= 0x115F || (c >= 0xA960 && c <= 0xA97C)) return kL;
  if ((c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6)) return kV;
  if ((c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB)) return kT;
  if (c < 0xAC00 || c > 0xD7A3) return kNoHangul;
  return (c - 0xAC00) % 28 == 0 ? kLV : kLVT;
}

bool joins(Hangul a, Hangul b) {
  if (a == kL) return b == kL || b == kV || b == kLV || b == kLVT;
  if (a == kLV || a == kV) return b == kV || b == kT;
  return (a == kLVT || a == kT) && b == kT;
}

bool is_flag(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }

// What has been seen of the cluster.
struct Cluster {
  char32_t last;
  bool picture;            // emoji and Extend so far
  bool consonant, virama;  // an Indic consonant, then only joining characters, a virama among them
  bool odd_flags;

  Cluster(char32_t c, std::uint8_t bits)
      : last(c), picture(bits & kPicture), consonant(bits & kConsonant), virama(false), odd_flags(is_flag(c)) {}

  bool goes_on(char32_t c, std::uint8_t bits, const std::uint8_t* table) const {
    if (last == '\r') return c == '\n';
    if ((table[last] & kControls) || (bits & kControls)) return false;
    if (bits & kJoins) return true;
    if (table[last] & kPrepends) return true;
    if (joins(hangul_of(last), hangul_of(c))) return true;
    if (consonant && virama && (bits & kConsonant)) return true;
    if (picture && last == 0x200D && (bits & kPicture)) return true;
    return odd_flags && is_flag(c);
  }

  void take(char32_t c, std::uint8_t bits) {
    const bool extends = (bits & kJoins) && !(bits & kSpacing);
    picture = (bits & kPicture) || (picture && extends && last != 0x200D);
    if (bits & kConsonant)
      consonant = true, virama = false;
    else if (extends && c != 0x200C)
      virama = virama || (bits & kVirama);
    else
      consonant = virama = false;
    odd_flags = is_flag(c) && !odd_flags;
    last = c;
  }
};

}  // namespace

std::size_t grapheme_end(std::string_view text, std::size_t at) {
  const auto is_plain = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80 && text[i] != '\r'; };
  if (is_plain(at) && (at + 1 == text.size() || is_plain(at + 1))) return at + 1;
  const std::uint8_t* table = grapheme_table();
  const char32_t first = next_code_point(text, at);
  Cluster cluster(first, table[first]);
  while (at < text.size()) {
    std::size_t next = at;
    const char32_t c = next_code_point(text, next);
    if (!cluster.goes_on(c, table[c], table)) break;
    cluster.take(c, table[c]);
    at = next;
  }
  return at;
}

}  // namespace hone::text
