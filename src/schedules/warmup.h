// What schedules begin and end with: warm-up, and cooldown.
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
    return std::tuple{field("warmup_steps", &C::warmup_steps,
                            "Steps of linear warm-up (from zero; of wsd: from final_ratio).", at_least(0)),
                      field("warmup_ratio", &C::warmup_ratio,
                            "Warm-up as a share of all steps; not together with warmup_steps.", {.low = 0, .high = 1})};
  }
  double steps(std::int64_t all) const;
  void validate(Problems& problems) const;
  void check(std::int64_t steps, Problems& problems) const;

 protected:
  // For steps at the end: `count` of them must fit behind the warm-up.
  void check_decay(const char* path, std::int64_t count, std::int64_t steps, Problems& problems) const;
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

// A schedule's own options, and a cooldown behind it.
template <class Own>
struct Cooled : Own {
  using Base = Own;
  std::int64_t cooldown_steps = 0;
  double cooldown_ratio = 0.0;
  static constexpr auto fields() {
    using C = Cooled;
    return std::tuple_cat(
        Own::fields(),
        std::tuple{
            field("cooldown_steps", &C::cooldown_steps,
                  "Last steps, over which the learning rate falls along a straight line from where the schedule, "
                  "which they shorten, has ended.",
                  at_least(0)),
            field("cooldown_ratio", &C::cooldown_ratio, "Learning rate behind the cooldown as a share of the peak.",
                  {.low = 0, .high = 1})});
  }
  void check(std::int64_t steps, Problems& problems) const {
    Own::check(steps, problems);
    problems.require(cooldown_steps > 0 || cooldown_ratio == 0, "cooldown_ratio",
                     "needs cooldown_steps: without them there is no cooldown");
    this->check_decay("cooldown_steps", cooldown_steps, steps, problems);
  }
};

// transformers' form of most schedules: step / warm-up, then shape(the share of what lies between warm-up and cooldown
// that is done, steps since warm-up), past 1 for steps beyond the end.
template <class Own, class Shape>
double warmed(const Cooled<Own>& config, std::int64_t step, std::int64_t steps, Shape&& shape) {
  const double now = static_cast<double>(step), begin = config.steps(steps);
  const double end = static_cast<double>(steps - config.cooldown_steps), length = std::max(1.0, end - begin);
  if (now < begin) return now / std::max(1.0, begin);
  if (config.cooldown_steps == 0 || now <= end) return shape((now - begin) / length, now - begin);
  const double from = shape(1.0, end - begin), done = (now - end) / static_cast<double>(config.cooldown_steps);
  return from + (config.cooldown_ratio - from) * std::min(1.0, done);
}

}  // namespace hone::schedules
