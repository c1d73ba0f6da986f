// Whether a recipe fits the number of its steps, which may be known only when the data is.
#include "train/check_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hone/registry.h"
#include "train/step_plan.h"

namespace hone::training {
namespace {

bool watches(const config::Choice<Callback>& choice) { return !registries().callbacks.make(choice)->watches().empty(); }

// Callbacks that act on evaluations: there must be one besides that at the end.
void check_watchers(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  const std::int64_t every = recipe.trainer.eval_every;
  if (every == 0 || every < steps || recipe.trainer.eval_every_epochs > 0 || has_own_times(recipe)) return;
  for (std::size_t i = 0; i < recipe.callbacks.size(); ++i)
    if (watches(recipe.callbacks[i]))
      problems.add(fmt::format("callbacks.{}", i),
                   fmt::format("acts on evaluations, but there is only the one at the end: trainer.eval_every is "
                               "{} of {} steps",
                               every, steps));
}

// Best checkpoints: some step besides the last is both evaluated and saved.
void check_best_saves(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  const TrainerSection& trainer = recipe.trainer;
  const SaveSection& save = trainer.save;
  const bool asked = save.keep_best > 1 || !save.best_by.empty();
  if (!asked || save.after_evaluation || save.every_minutes > 0 || trainer.eval_every_epochs > 0 ||
      has_own_times(recipe))
    return;
  const std::int64_t meet = save.every > 0 ? std::lcm(save.every, trainer.eval_every) : 0;  // 0: never
  if (meet == 0 || meet >= steps)
    problems.add(save.keep_best > 1 ? "trainer.save.keep_best" : "trainer.save.best_by",
                 fmt::format("of {} steps only the last is both evaluated and saved: trainer.eval_every is {}, "
                             "trainer.save.every {}; set trainer.save.after_evaluation",
                             steps, trainer.eval_every, save.every));
}

}  // namespace

bool has_own_times(const Recipe& recipe) {
  return std::any_of(recipe.trainer.eval_sets.begin(), recipe.trainer.eval_sets.end(),
                     [](const auto& set) { return set.second.every.value_or(0) > 0; });
}

void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  check_step_plan_fits(recipe, steps, problems);
  check_watchers(recipe, steps, problems);
  check_best_saves(recipe, steps, problems);
  const Problems::Scope below(problems, "optimizer.");
  registries().optimizers.make(recipe.optimizer)->check(steps, problems);
}

}  // namespace hone::training
