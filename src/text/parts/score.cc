// Decimal digits to a double by 64-bit digits and a power of ten, further digits dropped.
#include "text/parts/score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/strings.h"

namespace hone::text {
namespace {

constexpr int kLargestPower = 308;

const std::array<double, kLargestPower + 1>& powers() {
  static const auto table = [] {
    std::array<double, kLargestPower + 1> made{};
    for (int i = 0; i <= kLargestPower; ++i)
      made[static_cast<std::size_t>(i)] = *parse_double("1e" + std::to_string(i));
    return made;
  }();
  return table;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Digits {
  std::uint64_t value = 0;
  int exponent = 0;
};

Digits read_digits(std::string_view text) {
  Digits d;
  bool point = false, full = false;
  for (const char c : text) {
    if (c == 'e' || c == 'E') break;
    if (c == '.') point = true;
    if (!is_digit(c)) continue;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    full = full || d.value > (UINT64_MAX - digit) / 10;
    if (!full) d.value = d.value * 10 + digit;
    d.exponent += full ? !point : -static_cast<int>(point);
  }
  return d;
}

}  // namespace

std::optional<double> read_score(std::string_view text) {
  const auto nearest = parse_double(text);  // what is no number, too large or too small
  if (!nearest || *nearest == 0 || text.size() > 1000) return nearest;
  Digits d = read_digits(text);
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view exponent = text.substr(e + 1);
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    d.exponent += static_cast<int>(parse_int(exponent).value_or(0));  // as small as the number, which is finite
  }
  double value = static_cast<double>(d.value);
  if (d.exponent < -kLargestPower) {
    value /= powers()[kLargestPower];
    d.exponent = std::max(d.exponent + kLargestPower, -kLargestPower);
  }
  if (d.exponent > kLargestPower) return nearest;
  const double power = powers()[static_cast<std::size_t>(std::abs(d.exponent))];
  value = d.exponent < 0 ? value / power : value * power;
  if (!std::isfinite(value)) return nearest;
  return text[0] == '-' ? -value : value;
}

}  // namespace hone::text
