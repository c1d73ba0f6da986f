// `hone inspect recipe`: what a recipe says, whole; and how two differ.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/recipe.h"

namespace hone::cli {

struct InspectedRecipe {
  nlohmann::ordered_json report;
  std::string text;  // the same for people
};
// where: recipe files, run folders or checkpoints, one or two. Options are sorted by path, those of lists by their
// number; "from" says where a value was given. Error(usage, config).
InspectedRecipe inspect_recipe(const std::vector<std::string>& where, const Invocation& call,
                               const RecipeFlags& flags);

}  // namespace hone::cli
