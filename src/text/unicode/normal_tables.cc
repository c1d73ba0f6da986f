// Reading unicode_forms.inc.
#include "text/unicode/normal_tables.h"

#include <algorithm>
#include <string_view>

#include "text/unicode/case_tables.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

#include "text/unicode/unicode_forms.inc"

constexpr char32_t kHangulFirst = 0xAC00, kHangulCount = 11172;
constexpr std::uint8_t bit(NormalForm form) { return static_cast<std::uint8_t>(1 << static_cast<int>(form)); }
constexpr std::uint8_t kNfc = bit(NormalForm::nfc), kNfd = bit(NormalForm::nfd), kNfkc = bit(NormalForm::nfkc),
                       kNfkd = bit(NormalForm::nfkd);

// A number of these base at `text`, which moves behind it and the sign that follows; the sign.
char take_number(std::string_view& text, unsigned base, std::uint32_t& value) {
  value = 0;
  for (;;) {
    const char c = text[0];
    text.remove_prefix(1);
    const unsigned digit = c >= '0' && c <= '9'                 ? static_cast<unsigned>(c - '0')
                           : c >= 'A' && c <= 'F' && base == 16 ? static_cast<unsigned>(c - 'A' + 10)
                                                                : 99u;
    if (digit == 99) return c;
    value = value * base + digit;
  }
}

}  // namespace

const NormalTables& NormalTables::get() {
  static const NormalTables made;
  return made;
}

NormalTables::NormalTables() : orders_(0x20000), unsafe_(0x30000) {
  read_orders();
  read_decompositions();
  for (char32_t c = kHangulFirst; c < kHangulFirst + kHangulCount; ++c) mark(c, kNfd | kNfkd);
  for (char32_t c = 0x1161; c < 0x1161 + 21; ++c) mark(c, kNfc | kNfkc);
  for (char32_t c = 0x11A8; c < 0x11A8 + 27; ++c) mark(c, kNfc | kNfkc);
}

void NormalTables::mark(char32_t c, std::uint8_t bits) { unsafe_.at(c) |= bits; }

void NormalTables::read_orders() {
  for (std::string_view text = kOrders; !text.empty();) {
    std::uint32_t first, last, order;
    take_number(text, 16, first);
    take_number(text, 16, last);
    take_number(text, 10, order);
    for (std::uint32_t c = first; c <= last; ++c) {
      orders_.at(c) = static_cast<std::uint8_t>(order);
      mark(c, 0xF);
    }
  }
}

void NormalTables::read_decompositions() {
  std::vector<std::pair<char32_t, std::uint64_t>> composing;  // characters that NFC makes again, and their parts
  for (std::string_view text = kDecompositions; !text.empty();) {
    std::uint32_t c, part;
    const char kind = take_number(text, 16, c);
    const std::size_t first = parts_.size();
    for (char sign = ' '; sign == ' ';) {
      sign = take_number(text, 16, part);
      parts_.push_back(part);
    }
    const std::uint64_t place = first << 8 | (parts_.size() - first);
    (kind == '~' ? compatible_ : canonical_).set(c, place);
    mark(c, kind == '~' ? kNfkd | kNfkc : kind == '=' ? kNfd | kNfkd : 0xF);
    if (kind == '=') composing.emplace_back(c, place);
  }
  // All but the last part compose to the first of a pair that was added before: shorter ones come first.
  std::stable_sort(composing.begin(), composing.end(),
                   [](const auto& a, const auto& b) { return (a.second & 0xFF) < (b.second & 0xFF); });
  for (const auto& [c, place] : composing)
    add_composite(c, {parts_.data() + (place >> 8), static_cast<std::size_t>(place & 0xFF)});
}

void NormalTables::add_composite(char32_t c, std::span<const char32_t> parts) {
  char32_t first = parts[0];
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    first = composite(first, parts[i]);
    if (first == 0) return;
  }
  composites_.set(static_cast<std::uint64_t>(first) << 32 | parts.back(), c);
  mark(parts.back(), kNfc | kNfkc);
}

std::vector<char32_t> make_lower_case() {
  std::vector<char32_t> table(0x20000);
  for (char32_t c = 0; c < table.size(); ++c) table[c] = c;
  for (std::string_view text = kLowerCase; !text.empty();) {
    std::uint32_t first, last, difference, step;
    take_number(text, 16, first);
    const char sign = take_number(text, 16, last);
    take_number(text, 10, difference);
    take_number(text, 10, step);
    for (std::uint32_t c = first; c <= last; c += step) table.at(c) = sign == '+' ? c + difference : c - difference;
  }
  return table;
}

}  // namespace hone::text
