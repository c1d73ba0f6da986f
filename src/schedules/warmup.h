// What schedules begin and end with: warm-up, and cooldown.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "hone/config.h"

namespace hone::schedules {
enum class WarmupShape { linear, cosine, one_minus_sqrt, quadratic };
}  // namespace hone::schedules

// HF's names (of get_wsd_schedule), and Axolotl's.
template <>
inline constexpr auto hone::config::enum_names<hone::schedules::WarmupShape> =
    std::to_array<std::pair<hone::schedules::WarmupShape, std::string_view>>(
        {{hone::schedules::WarmupShape::linear, "linear"},
         {hone::schedules::WarmupShape::cosine, "cosine"},
         {hone::schedules::WarmupShape::one_minus_sqrt, "1-sqrt"},
         {hone::schedules::WarmupShape::quadratic, "quadratic"}});

namespace hone::schedules {

// Steps of warm-up: a number, or a share of all steps. Schedules extend it by what they are told besides.
struct Warmup {
  std::int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;
  WarmupShape warmup_type = WarmupShape::linear;
  static constexpr auto fields() {
    using C = Warmup;
    return std::tuple{field("warmup_steps", &C::warmup_steps,
                            "Steps of warm-up (from zero; of wsd: from final_ratio).", at_least(0)),
                      field("warmup_ratio", &C::warmup_ratio,
                            "Warm-up as a share of all steps; not together with warmup_steps.", {.low = 0, .high = 1}),
                      field("warmup_type", &C::warmup_type,
                            "Shape of the warm-up; quadratic and cosine begin slowly, 1-sqrt ends steeply.")};
  }
  double steps(std::int64_t all) const;
  double risen(double step, double warmup) const;  // the share of the way up that is done at a step of the warm-up
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

// What schedules are told that may be down before the end.
struct FallingWithin : Falling {
  using Base = Falling;
  std::optional<double> fall_ratio;
  static constexpr auto fields() {
    return std::tuple_cat(
        Falling::fields(),
        std::tuple{field("fall_ratio", &FallingWithin::fall_ratio,
                         "Share of all steps, warm-up and all, behind which it is at final_ratio and stays there; "
                         "default: it falls to the end, or to the cooldown.",
                         {.low = 0, .high = 1})});
  }
  double fall_end(std::int64_t all) const { return std::floor(*fall_ratio * static_cast<double>(all)); }
  void validate(Problems& problems) const;
  // Of a fall that `end` cuts off.
  void check_fall(std::int64_t end, std::int64_t all, Problems& problems) const;
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
    if constexpr (requires { this->fall_ratio; }) this->check_fall(steps - cooldown_steps, steps, problems);
  }
  // The step at which the way down ends; none: where the cooldown begins, beyond which shapes may go on.
  std::optional<double> end_of_fall(std::int64_t steps) const {
    if constexpr (requires { this->fall_ratio; })
      if (this->fall_ratio) return this->fall_end(steps);
    return std::nullopt;
  }
};

// transformers' form of most schedules: warm-up, then shape(the share of the way between warm-up and cooldown, or
// fall_ratio, that is done, steps since warm-up), past 1 for steps beyond the end, but not beyond fall_ratio.
template <class Own, class Shape>
double warmed(const Cooled<Own>& config, std::int64_t step, std::int64_t steps, Shape&& shape) {
  const double now = static_cast<double>(step), begin = config.steps(steps);
  const double end = static_cast<double>(steps - config.cooldown_steps);
  const std::optional<double> bottom = config.end_of_fall(steps);
  const double length = std::max(1.0, bottom.value_or(end) - begin);
  const auto fallen = [&](double at) {
    const double since = (bottom ? std::min(at, *bottom) : at) - begin;
    return shape(since / length, since);
  };
  if (now < begin) return config.risen(now, begin);
  if (config.cooldown_steps == 0 || now <= end) return fallen(now);
  // A fall without steps is over, too.
  const double from = bottom ? fallen(end) : shape(1.0, end - begin);
  const double done = (now - end) / static_cast<double>(config.cooldown_steps);
  return from + (config.cooldown_ratio - from) * std::min(1.0, done);
}

}  // namespace hone::schedules
