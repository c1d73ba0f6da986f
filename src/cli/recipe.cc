// Layers of a recipe are merged as nodes, so that every problem still knows the file and line it came from.
#include "cli/recipe.h"

#include <unistd.h>

#include "config/command_line.h"
#include "train/alternatives.h"

namespace hone::cli {

Recipe whole_recipe(const Invocation& call, const std::vector<std::string>& set) {
  config::Node root = call.positionals.empty() ? config::Node::map() : config::read_file(call.positionals[0]);
  for (const std::string& file : set) {
    const config::Node layer = config::read_file(file);
    training::drop_excluded(root, layer);
    config::overlay(root, layer);
  }
  Problems problems;
  const auto environment = config::environment_overrides(environ);
  training::drop_excluded(root, environment);
  for (const auto& [path, value] : environment) config::assign(root, path, value, {"environment", 0}, problems);
  training::drop_excluded(root, call.overrides);
  for (const auto& [path, value] : call.overrides) config::assign(root, path, value, {"--" + path, 0}, problems);
  config::resolve(root, problems);
  problems.raise();
  return read_recipe(std::move(root));
}

}  // namespace hone::cli
