// What a recipe's objective is, and what it measures besides.
#include "train/make_objective.h"

#include <algorithm>

#include "hone/registry.h"

namespace hone::training {

std::unique_ptr<Objective> make_objective(const Recipe& recipe) {
  return registries().objectives.make(recipe.objective);
}

std::vector<std::shared_ptr<const Evaluation>> make_metrics(const Recipe& recipe) {
  std::vector<std::shared_ptr<const Evaluation>> made;
  for (const config::Choice<Evaluation>& one : recipe.metrics) made.push_back(registries().evals.make(one));
  return made;
}

bool writes_answers(const Recipe& recipe) {
  const auto all = make_metrics(recipe);
  return std::any_of(all.begin(), all.end(), [](const auto& one) { return one->writes_answers(); });
}

}  // namespace hone::training
