// What a recipe asks for and cannot get: options that are fine by themselves and have no effect together.
#pragma once

#include <cstdint>

#include "hone/recipe.h"

namespace hone::training {

void find_contradictions(const Recipe& recipe, Problems& problems);

// The learning-rate schedule of a run of that many steps. Found by find_contradictions() where the recipe gives the
// steps, else (epochs) as soon as the data is read.
void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems);

}  // namespace hone::training
