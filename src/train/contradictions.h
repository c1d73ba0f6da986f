// What a recipe asks for and cannot get: options that are fine by themselves and have no effect together.
#pragma once

#include "hone/recipe.h"

namespace hone::training {

void find_contradictions(const Recipe& recipe, Problems& problems);

}  // namespace hone::training
