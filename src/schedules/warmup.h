// The warm-up that schedules begin with.
#pragma once

#include <cstdint>
#include <optional>

#include "hone/config.h"

namespace hone::schedules {

// Steps of linear warm-up from zero: a number, or a share of all steps.
struct Warmup {
  std::int64_t count = 0;
  std::optional<double> ratio = {};
  double steps(std::int64_t all) const;
  void validate(Problems& problems) const;
  void check(std::int64_t steps, Problems& problems) const;
};

// transformers' form of most schedules: step / warm-up, then a function of the share of the rest that is done (past 1
// for steps beyond the end).
template <class Shape>
double warmed(const Warmup& warmup, std::int64_t step, std::int64_t steps, Shape&& shape) {
  const double now = static_cast<double>(step), all = static_cast<double>(steps), begin = warmup.steps(steps);
  if (now < begin) return now / std::max(1.0, begin);
  return shape((now - begin) / std::max(1.0, all - begin));
}

// What schedules that fall to a share of the peak are told.
struct FallingConfig {
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;
  double final_ratio = 0.0;
  static constexpr auto fields() {
    using C = FallingConfig;
    return std::tuple{
        field("warmup_steps", &C::warmup_steps, "Steps of linear warm-up from zero.", at_least(0)),
        field("warmup_ratio", &C::warmup_ratio, "Warm-up as a share of all steps; not together with warmup_steps.",
              {.low = 0, .high = 1}),
        field("final_ratio", &C::final_ratio, "Last learning rate as a share of the peak.", {.low = 0, .high = 1})};
  }
  Warmup warmup() const { return {warmup_steps, warmup_ratio}; }
  void validate(Problems& problems) const { warmup().validate(problems); }
};

}  // namespace hone::schedules
