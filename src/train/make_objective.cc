// What a recipe's objective is.
#include "train/make_objective.h"

#include "hone/registry.h"

namespace hone::training {

std::unique_ptr<Objective> make_objective(const Recipe& recipe) {
  return registries().objectives.make(recipe.objective);
}

}  // namespace hone::training
