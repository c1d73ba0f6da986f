// The o200k pattern: words are cut where lower case ends and upper case begins.
//
// With U = upper and title case, B = letters without case and marks, L = lower case, the two first alternatives are
// c? [UB]* [LB]+ and c? [UB]+ [LB]*, each with a contraction behind it; c is no line end, letter or number.
#include <array>
#include <vector>

#include "text/regex/scanners.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

enum : std::uint8_t { kUpper = 1, kBoth = 2, kLower = 4, kDigit = 8, kBlank = 16 };

const std::uint8_t* o200k_table() {
  static const std::vector<std::uint8_t> made = [] {
    std::vector<std::uint8_t> table(kMaxCodePoint + 1);
    for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
      const Category of = category_of(c);
      if (of == Lu || of == Lt) table[c] = kUpper;
      if (of == Lm || of == Lo || (of >= Mn && of <= Me)) table[c] = kBoth;
      if (of == Ll) table[c] = kLower;
      if (of >= Nd && of <= No) table[c] = kDigit;
      if (class_table()[c] & kSpace) table[c] = kBlank;
    }
    return table;
  }();
  return made.data();
}

struct PieceReader {
  std::string_view text;  // up to the end of the piece
  const std::uint8_t* table;

  std::uint8_t read(std::size_t at, std::size_t& next) const {
    next = at;
    return table[next_code_point(text, next)];
  }
  std::uint8_t kind(std::size_t at) const {
    std::size_t next;
    return at < text.size() ? read(at, next) : 0x80;
  }
  bool is_letter(std::size_t at) const {  // \p{L}: B without the marks
    if (at >= text.size()) return false;
    std::size_t next = at;
    return category_of(next_code_point(text, next)) <= Lo;
  }
  std::size_t run(std::size_t at, std::uint8_t kinds) const {
    for (std::size_t next; at < text.size() && (read(at, next) & kinds);) at = next;
    return at;
  }
  bool newline(std::size_t at) const { return at < text.size() && (text[at] == '\n' || text[at] == '\r'); }
};

// A word that begins with [UB]* at `at`: its end, or 0 when there is no letter or mark.
std::size_t cased_word(const PieceReader& r, std::size_t at) {
  std::size_t end = at, last_both = 0;  // last_both: behind the last B of the run
  for (std::size_t next; end < r.text.size(); end = next) {
    const std::uint8_t kind = r.read(end, next);
    if (!(kind & (kUpper | kBoth))) break;
    if (kind & kBoth) last_both = next;
  }
  if (r.kind(end) & kLower && end < r.text.size()) return r.run(end, kLower | kBoth);
  if (last_both > 0) return last_both;
  return end > at ? end : 0;
}

std::size_t with_contraction(const PieceReader& r, std::size_t at) {
  if (at >= r.text.size() || r.text[at] != '\'') return at;
  const std::size_t end = contraction_end(r.text, at, true);
  return end ? end : at;
}

std::size_t o200k_word(const PieceReader& r, std::size_t at) {
  std::size_t next;
  const std::uint8_t kind = r.read(at, next);
  // First c? with c, then without: a mark may be either.
  if (!r.newline(at) && kind != kDigit && !r.is_letter(at))
    if (const std::size_t end = r.kind(next) & (kUpper | kBoth | kLower) ? cased_word(r, next) : 0; end > 0) {
      // [LB]+ comes before [UB]+ [LB]*: a mark before capitals alone is a word by itself.
      const bool capitals = r.run(next, kUpper) == end;
      return with_contraction(r, capitals && (kind & kBoth) ? next : end);
    }
  if (kind & (kUpper | kBoth | kLower)) return with_contraction(r, cased_word(r, at));
  if (kind == kDigit) {
    for (int n = 1; n < 3 && r.kind(next) == kDigit; ++n) r.read(next, next);
    return next;
  }
  constexpr std::uint8_t kOther = kUpper | kLower | kDigit | kBlank;
  const auto is_other = [&](std::size_t i) { return i < r.text.size() && !(r.kind(i) & kOther) && !r.is_letter(i); };
  if (is_other(at) || (r.text[at] == ' ' && is_other(next))) {
    while (is_other(next)) r.read(next, next);
    while (r.newline(next) || (next < r.text.size() && r.text[next] == '/')) ++next;
    return next;
  }
  return blanks_end(r.text, at);
}

}  // namespace

void scan_o200k(std::string_view text, const Piece& piece, std::vector<Piece>& out) {
  const PieceReader r{text.substr(0, piece.end), o200k_table()};
  for (std::size_t at = piece.begin; at < piece.end;) {
    const std::size_t end = o200k_word(r, at);
    out.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end), -1});
    at = end;
  }
}

}  // namespace hone::text
