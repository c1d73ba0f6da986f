// What a recipe's objective is, and what it measures besides.
#pragma once

#include <memory>
#include <vector>

#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

std::unique_ptr<Objective> make_objective(const Recipe& recipe);
std::vector<std::shared_ptr<const Evaluation>> make_metrics(const Recipe& recipe);
bool writes_answers(const Recipe& recipe);  // whether any of them has the model write

}  // namespace hone::training
