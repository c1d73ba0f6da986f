// Comparing ranks.
#include "train/pace.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace hone::training {

std::string Pace::add(const std::vector<double>& busy) {
  sums_.resize(busy.size());
  std::transform(sums_.begin(), sums_.end(), busy.begin(), sums_.begin(), std::plus<>());
  if (++steps_ % kSteps != 0 || sums_.size() < 2) return "";
  const std::vector<double> made = std::exchange(sums_, {});
  std::vector<double> sorted = made;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[(sorted.size() - 1) / 2], most = sorted.back();
  const auto slowest = static_cast<std::size_t>(std::max_element(made.begin(), made.end()) - made.begin());
  constexpr double kNoticed = 1e-3;  // seconds of a step
  if (most < kSlow * median || most - median < kNoticed * kSteps || !said_.insert(slowest).second) return "";
  return fmt::format("the others wait for rank {}: its part of a step took {:.3g} s, the median rank's {:.3g} s",
                     slowest, most / kSteps, median / kSteps);
}

}  // namespace hone::training
