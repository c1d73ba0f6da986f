// The warm-up that schedules begin with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "hone/config.h"

namespace hone::schedules {

// Steps of linear warm-up: a number, or a share of all steps. Schedules extend it by what they are told besides.
struct Warmup {
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;
  static constexpr auto fields() {
    using C = Warmup;
    return std::tuple{
        field("warmup_steps", &C::warmup_steps, "Steps of linear warm-up (from zero; of wsd: from final_ratio).",
              at_least(0)),
        field("warmup_ratio", &C::warmup_ratio, "Warm-up as a share of all steps; not together with warmup_steps.",
              {.low = 0, .high = 1})};
  }
  double steps(std::int64_t all) const;
  void validate(Problems& problems) const;
  void check(std::int64_t steps, Problems& problems) const;
};

// What schedules that fall to a share of the peak are told.
struct Falling : Warmup {
  using Base = Warmup;
  double final_ratio = 0.0;
  static constexpr auto fields() {
    return std::tuple_cat(Warmup::fields(),
                          std::tuple{field("final_ratio", &Falling::final_ratio,
                                           "Last learning rate as a share of the peak.", {.low = 0, .high = 1})});
  }
};

// transformers' form of most schedules: step / warm-up, then a function of the share of the rest that is done (past 1
// for steps beyond the end).
template <class Shape>
double warmed(const Warmup& warmup, std::int64_t step, std::int64_t steps, Shape&& shape) {
  const double now = static_cast<double>(step), all = static_cast<double>(steps), begin = warmup.steps(steps);
  if (now < begin) return now / std::max(1.0, begin);
  return shape((now - begin) / std::max(1.0, all - begin));
}

}  // namespace hone::schedules
