// Quantiles over ranks.
#include "objectives/quantile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace hone::objectives {

double quantile_over(const World& world, const std::vector<double>& own, double share) {
  std::vector<double> all = own;
  if (world.size() > 1) {
    std::string told;
    for (const double value : own) told += fmt::format("{:a} ", value);  // to the bit
    all.clear();
    for (const std::string& rank : world.gather(told))
      for (const char* at = rank.c_str(); *at != '\0';) {
        char* end = nullptr;
        all.push_back(std::strtod(at, &end));
        at = end + 1;
      }
  }
  const auto is_nan = [](double value) { return std::isnan(value); };  // these have no order
  if (all.empty() || std::any_of(all.begin(), all.end(), is_nan)) return std::numeric_limits<double>::quiet_NaN();
  std::sort(all.begin(), all.end());
  constexpr double kRounding = 1e-6;  // of a place that is one of the numbers, such as 0.8 * 140
  double place = share * static_cast<double>(all.size() - 1);
  if (std::abs(place - std::round(place)) < kRounding) place = std::round(place);
  const auto below = static_cast<std::size_t>(place), above = std::min(below + 1, all.size() - 1);
  return all[below] + (place - static_cast<double>(below)) * (all[above] - all[below]);
}

}  // namespace hone::objectives
