// Whether a learning-rate schedule fits the length of its run.
#pragma once

#include <cstdint>

#include "hone/recipe.h"

namespace hone::training {

// Found by find_contradictions() where the recipe gives the steps, else (epochs) as soon as the data is read.
void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems);

}  // namespace hone::training
