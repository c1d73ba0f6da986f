// The layers of a command's recipe.
#include "cli/recipe.h"

#include <unistd.h>

#include "config/command_line.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::cli {

RecipeLayers recipe_layers(const Invocation& call, const std::vector<std::string>& set, const std::string& file) {
  return {.file = file, .set = set, .environment = config::environment_overrides(environ), .flags = call.overrides};
}

Recipe whole_recipe(const Invocation& call, const std::vector<std::string>& set, const std::string& file,
                    const std::string& folder, UnknownKeys unknown) {
  RecipeLayers layers =
      recipe_layers(call, set, !file.empty() || call.positionals.empty() ? file : call.positionals[0]);
  if (!folder.empty()) layers.environment.insert(layers.environment.begin(), {"run.folder", folder});
  layers.unknown = unknown;
  return read_recipe(layers);
}

std::vector<std::string> recipe_switches() {
  std::vector<std::string> names;
  const auto add = [&](const std::string& before, const std::vector<config::OptionInfo>& rows) {
    for (const config::OptionInfo& row : rows)
      if (row.type == "boolean") names.push_back(before + row.path);
  };
  const std::vector<config::OptionInfo> rows = config::describe(Recipe());
  add("", rows);
  for (const config::OptionInfo& row : rows) {
    const config::Catalogue* catalogue = row.catalogue.empty() ? nullptr : config::find_catalogue(row.catalogue);
    if (!catalogue) continue;
    for (const std::string& name : catalogue->names()) add(row.path + ".", catalogue->options(name)->describe());
  }
  return names;
}

}  // namespace hone::cli
