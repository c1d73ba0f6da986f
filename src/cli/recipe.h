// A recipe as the command line gives it: file, --set files, environment, then --a.b.c=value, each over what came
// before.
#pragma once

#include <string>
#include <vector>

#include "hone/command.h"
#include "hone/recipe.h"

namespace hone::cli {

// Flags of commands that read a recipe.
struct RecipeFlags {
  std::vector<std::string> set;
  UnknownKeys unknown = UnknownKeys::refuse;
};

// `file`, or call.positionals[0] if there, is the recipe; `folder`: run.folder, unless environment or flags say another
// one. Throws Error(config) with all problems.
Recipe whole_recipe(const Invocation& call, const std::vector<std::string>& set, const std::string& file = "",
                    const std::string& folder = "", UnknownKeys unknown = UnknownKeys::refuse);

// The layers of that, as yet unread.
RecipeLayers recipe_layers(const Invocation& call, const std::vector<std::string>& set, const std::string& file);

// The recipe's options that are true or false, of everything that its sections can be: Usage::switches.
std::vector<std::string> recipe_switches();

}  // namespace hone::cli
