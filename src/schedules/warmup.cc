// Warm-up.
#include "schedules/warmup.h"

#include <fmt/format.h>

#include <cmath>

#include "base/strings.h"

namespace hone::schedules {

double Warmup::steps(std::int64_t all) const {
  return warmup_ratio ? std::ceil(*warmup_ratio * static_cast<double>(all)) : static_cast<double>(warmup_steps);
}

void Warmup::validate(Problems& problems) const {
  problems.require(!warmup_ratio || warmup_steps == 0, "warmup_ratio", "not together with warmup_steps");
}

void Warmup::check(std::int64_t steps, Problems& problems) const {
  if (warmup_steps > steps)
    problems.add("warmup_steps",
                 fmt::format("got {}, expected at most the {} of the run", warmup_steps, counted(steps, "step")));
}

}  // namespace hone::schedules
