// What a recipe's objective is.
#pragma once

#include <memory>

#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

std::unique_ptr<Objective> make_objective(const Recipe& recipe);

}  // namespace hone::training
