// Warm-up and cooldown.
#include "schedules/warmup.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/strings.h"

namespace hone::schedules {

double Warmup::steps(std::int64_t all) const {
  return warmup_ratio ? std::ceil(*warmup_ratio * static_cast<double>(all)) : static_cast<double>(warmup_steps);
}

double Warmup::risen(double step, double warmup) const {
  const double done = step / std::max(1.0, warmup);
  switch (warmup_type) {
    case WarmupShape::cosine:
      return 0.5 * (1.0 - std::cos(std::numbers::pi * done));
    case WarmupShape::one_minus_sqrt:
      return 1.0 - std::sqrt(1.0 - done);
    case WarmupShape::quadratic:
      return done * done;
    default:
      return done;
  }
}

void Warmup::validate(Problems& problems) const {
  problems.require(!warmup_ratio || warmup_steps == 0, "warmup_ratio", "not together with warmup_steps");
  problems.require(warmup_type == WarmupShape::linear || warmup_steps > 0 || warmup_ratio.value_or(0) > 0,
                   "warmup_type", "says the shape of a warm-up, and there is none; give warmup_steps or warmup_ratio");
}

void Warmup::check(std::int64_t steps, Problems& problems) const {
  if (warmup_steps > steps)
    problems.add("warmup_steps",
                 fmt::format("got {}, expected at most the {} of the run", warmup_steps, counted(steps, "step")));
}

void Warmup::check_decay(const char* path, std::int64_t count, std::int64_t steps, Problems& problems) const {
  const auto warmup = static_cast<std::int64_t>(this->steps(steps));
  if (warmup <= steps && warmup + count > steps)
    problems.add(path, fmt::format("got {}, expected at most {}: what {} leave after {} of warm-up", count,
                                   steps - warmup, counted(steps, "step"), warmup));
}

void FallingWithin::validate(Problems& problems) const {
  Falling::validate(problems);
  problems.require(!fall_ratio || *fall_ratio > 0, "fall_ratio", "expected above 0");
}

void FallingWithin::check_fall(std::int64_t end, std::int64_t all, Problems& problems) const {
  if (!fall_ratio) return;
  const double warmup = steps(all), bottom = fall_end(all);
  if (bottom <= warmup)
    problems.add("fall_ratio", fmt::format("got {}, step {}, expected a step behind the {} of warm-up", *fall_ratio,
                                           bottom, warmup));
  else if (bottom > static_cast<double>(end))
    problems.add("fall_ratio", fmt::format("got {}, step {}, expected at most {}, where the cooldown begins",
                                           *fall_ratio, bottom, end));
}

}  // namespace hone::schedules
