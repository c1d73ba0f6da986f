// Whether an optimizer and its schedule fit their run.
#include "train/check_schedule.h"

#include "hone/registry.h"

namespace hone::training {

void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  const Problems::Scope below(problems, "optimizer.");
  registries().optimizers.make(recipe.optimizer)->check(steps, problems);
}

}  // namespace hone::training
