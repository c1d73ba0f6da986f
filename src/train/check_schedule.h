// Whether a recipe fits the length of its run: its learning-rate schedule, and evaluations that something acts on.
#pragma once

#include <cstdint>

#include "hone/recipe.h"

namespace hone::training {

// Of evaluation sets, some that do not follow trainer.eval_every.
bool has_own_times(const Recipe& recipe);

// Found by find_contradictions() where the recipe gives the steps, else (epochs) as soon as the data is read.
void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems);

}  // namespace hone::training
