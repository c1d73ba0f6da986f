// The layers of a command's recipe.
#include "cli/recipe.h"

#include <unistd.h>

#include "config/command_line.h"

namespace hone::cli {

Recipe whole_recipe(const Invocation& call, const std::vector<std::string>& set) {
  return read_recipe({.file = call.positionals.empty() ? "" : call.positionals[0],
                      .set = set,
                      .environment = config::environment_overrides(environ),
                      .flags = call.overrides});
}

}  // namespace hone::cli
