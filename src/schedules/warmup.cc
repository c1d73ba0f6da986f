// Warm-up and cooldown.
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

void Warmup::check_decay(const char* path, std::int64_t count, std::int64_t steps, Problems& problems) const {
  const auto warmup = static_cast<std::int64_t>(this->steps(steps));
  if (warmup <= steps && warmup + count > steps)
    problems.add(path, fmt::format("got {}, expected at most {}: what {} leave after {} of warm-up", count,
                                   steps - warmup, counted(steps, "step"), warmup));
}

}  // namespace hone::schedules
