// What a run's layers round weights and inputs to (trainer.qat), and from when on.
#pragma once

#include <cstdint>
#include <string>

#include "hone/recipe.h"

namespace hone::training {

// As it is in the step after so many. Error(config): the model has nothing to round, or group_size does not fit.
void round_weights(Model& model, const Recipe& recipe, std::int64_t steps_done);
// The same from the first step on: for what is to be said of the run before it.
void round_weights(Model& model, const Recipe& recipe);

std::string rounding_line(const Recipe& recipe, Model& model);  // of a run that rounds

void check_rounding(const Recipe& recipe, Problems& problems);  // what it does not go with

}  // namespace hone::training
