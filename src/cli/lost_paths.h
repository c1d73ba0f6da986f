// What an error of a recipe that is used in another folder than its run was begun in says beside itself.
#pragma once

#include <string>

#include "hone/error.h"
#include "hone/recipe.h"

namespace hone::cli {

// The error with the folder that relative paths start from and what helps, where it names one of the recipe's relative
// paths which is not there; else as it was. run: as the user named it.
Error naming_lost_path(Error error, const Recipe& recipe, const std::string& run);

}  // namespace hone::cli
