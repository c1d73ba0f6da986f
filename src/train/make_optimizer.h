// The optimizer of a recipe, with the average of the weights that it asks for.
#pragma once

#include <memory>

#include "hone/optimizer.h"
#include "hone/recipe.h"

namespace hone::training {

// Throws Error(config) where the optimizer averages the weights itself.
std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe);

}  // namespace hone::training
