// Whether a schedule fits its run.
#include "train/check_schedule.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace hone::training {
namespace {

std::int64_t number_in(const config::Node& schedule, const char* name) {
  const config::Node* found = schedule.find(name);
  return found ? parse_int(found->text()).value_or(0) : 0;
}

}  // namespace

void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  if (!recipe.optimizer.options) return;
  const config::Node options = recipe.optimizer.options->write();
  const config::Node* schedule = options.find("schedule");
  if (!schedule) return;  // an optimizer that has none
  const std::int64_t warmup = number_in(*schedule, "warmup_steps"), decay = number_in(*schedule, "decay_steps");
  if (warmup > steps)
    problems.add("optimizer.schedule.warmup_steps",
                 fmt::format("got {}, expected at most the {} of the run", warmup, counted(steps, "step")));
  else if (warmup + decay > steps)
    problems.add("optimizer.schedule.decay_steps",
                 fmt::format("got {}, expected at most {}: what {} leave after {} of warm-up", decay, steps - warmup,
                             counted(steps, "step"), warmup));
}

}  // namespace hone::training
