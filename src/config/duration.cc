// Lengths of time as people write them.
#include "config/duration.h"

#include <cctype>
#include <charconv>
#include <string_view>

namespace hone::config {
namespace {

double seconds_in(std::string_view unit) {
  for (const auto& [names, seconds] :
       {std::pair{" d day days ", 86400.0}, std::pair{" h hour hours ", 3600.0},
        std::pair{" m min minute minutes ", 60.0}, std::pair{" s sec second seconds ", 1.0}})
    if (std::string_view(names).find(" " + std::string(unit) + " ") != std::string_view::npos) return seconds;
  return 0;
}

void skip_spaces(std::string_view& left) {
  while (!left.empty() && left[0] == ' ') left.remove_prefix(1);
}

}  // namespace

std::optional<double> seconds_of(const std::string& text) {
  std::string_view left = text;
  double total = 0;
  for (skip_spaces(left); !left.empty(); skip_spaces(left)) {
    double number = 0;
    const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), number, std::chars_format::fixed);
    if (error != std::errc() || number < 0) return std::nullopt;
    left.remove_prefix(static_cast<std::size_t>(end - left.data()));
    skip_spaces(left);
    std::size_t letters = 0;
    while (letters < left.size() && std::isalpha(static_cast<unsigned char>(left[letters]))) ++letters;
    const double unit = letters == 0 ? 0 : seconds_in(left.substr(0, letters));
    if (unit == 0) return std::nullopt;
    total += number * unit;
    left.remove_prefix(letters);
  }
  return total > 0 ? std::optional(total) : std::nullopt;
}

}  // namespace hone::config
