// Whether a recipe fits the number of its steps, which may be known only when the data is.
#include "train/check_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hone/registry.h"
#include "train/step_plan.h"

namespace hone::training {
namespace {

// Of at least `from`, and of 1.
std::int64_t first_multiple(std::int64_t of, std::int64_t from) {
  return std::max<std::int64_t>(1, (from + of - 1) / of) * of;
}

// Callbacks that act on evaluations: there must be one besides that at the end.
void check_watchers(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  for (std::size_t i = 0; i < recipe.callbacks.size(); ++i) {
    const std::string metric = registries().callbacks.make(recipe.callbacks[i])->watches();
    if (metric.empty()) continue;
    const MetricTimes times = times_of(recipe, metric);
    const std::int64_t delay = recipe.trainer.eval_delay;
    if (delay >= steps || (times.every > 0 && !times.by_epochs && first_multiple(times.every, delay) >= steps))
      problems.add(
          fmt::format("callbacks.{}", i),
          fmt::format("acts on evaluations, but there is only the one at the end: {} is {} of {} steps{}", times.option,
                      times.every, steps, delay > 0 ? fmt::format(", trainer.eval_delay {}", delay) : ""));
  }
}

// Best checkpoints: some step besides the last is both evaluated and saved.
void check_best_saves(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  const SaveSection& save = recipe.trainer.save;
  const MetricTimes times = times_of(recipe, save.best_by);
  const bool asked = save.keep_best > 1 || !save.best_by.empty();
  // Callbacks may ask for evaluations, each of which is saved with after_evaluation.
  if (!asked || times.by_epochs || save.after_evaluation || (times.every > 0 && save.every_minutes > 0)) return;
  const std::int64_t meet = save.every > 0 ? std::lcm(save.every, times.every) : 0;  // 0: never
  if (meet == 0 || first_multiple(meet, recipe.trainer.eval_delay) >= steps)
    problems.add(save.keep_best > 1 ? "trainer.save.keep_best" : "trainer.save.best_by",
                 fmt::format("of {} steps only the last is both evaluated and saved: {} is {}, "
                             "trainer.save.every {}; set {}",
                             steps, times.option, times.every, save.every,
                             times.every == 0 ? times.option : "trainer.save.after_evaluation"));
}

}  // namespace

std::vector<std::string> eval_sets(const Recipe& recipe) {
  std::vector<std::string> names;
  if (recipe.data.eval.held_out.value_or(0) > 0) names.push_back("held_out");
  for (const auto& [name, files] : recipe.data.eval.files) names.push_back(name);
  return names;
}

MetricTimes times_of(const Recipe& recipe, const std::string& metric) {
  const TrainerSection& trainer = recipe.trainer;
  const std::vector<std::string> sets = eval_sets(recipe);
  std::string of = sets.empty() ? "" : sets.front();
  if (sets.size() > 1 && !metric.empty()) {
    of.clear();
    for (const std::string& set : sets)
      if (metric.starts_with("eval_" + set + "_") && set.size() > of.size()) of = set;
  }
  const auto own = trainer.eval_sets.find(of);
  if (own != trainer.eval_sets.end() && own->second.every)
    return {fmt::format("trainer.eval_sets.{}.every", of), *own->second.every, false};
  return {"trainer.eval_every", trainer.eval_every, trainer.eval_every_epochs > 0};
}

void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems) {
  check_step_plan_fits(recipe, steps, problems);
  check_watchers(recipe, steps, problems);
  check_best_saves(recipe, steps, problems);
  const Problems::Scope below(problems, "optimizer.");
  registries().optimizers.make(recipe.optimizer)->check(steps, problems);
}

}  // namespace hone::training
