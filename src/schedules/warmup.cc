// Warm-up.
#include "schedules/warmup.h"

#include <fmt/format.h>

#include <cmath>

#include "base/strings.h"

namespace hone::schedules {

double Warmup::steps(std::int64_t all) const {
  return ratio ? std::ceil(*ratio * static_cast<double>(all)) : static_cast<double>(count);
}

void Warmup::validate(Problems& problems) const {
  problems.require(!ratio || count == 0, "warmup_ratio", "not together with warmup_steps");
}

void Warmup::check(std::int64_t steps, Problems& problems) const {
  if (count > steps)
    problems.add("warmup_steps", fmt::format("got {}, expected at most the {} of the run", count, counted(steps, "step")));
}

}  // namespace hone::schedules
