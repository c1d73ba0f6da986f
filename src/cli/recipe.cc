// Layers of a recipe are merged as nodes, so that every problem still knows the file and line it came from.
#include "cli/recipe.h"

#include <unistd.h>

#include "config/command_line.h"
#include "train/layers.h"

namespace hone::cli {

Recipe whole_recipe(const Invocation& call, const std::vector<std::string>& set) {
  config::Node root = call.positionals.empty() ? config::Node::map() : config::read_file(call.positionals[0]);
  for (const std::string& file : set) training::put_over(root, config::read_file(file));
  Problems problems;
  training::put_over(root, config::environment_overrides(environ), "environment", problems);
  training::put_over(root, call.overrides, "", problems);
  config::resolve(root, problems);
  problems.raise();
  return read_recipe(std::move(root));
}

}  // namespace hone::cli
