// What the run said that a model is of: how its data were read, which its folder does not keep.
#include "cli/run_recipe.h"

#include <filesystem>
#include <vector>

#include "base/strings.h"

namespace hone::cli {
namespace {

const config::Node* child(const config::Node* node, std::string_view key) {
  return node && node->is_map() ? node->find(std::string(key)) : nullptr;
}

}  // namespace

RunRecipe::RunRecipe(const ModelPlace& place) {
  const std::filesystem::path folder = place.adapter.empty() ? place.folder : place.adapter;
  std::vector<std::filesystem::path> recipes = {folder / "state" / "config.yaml"};
  if (const auto parent = folder.parent_path(); parent.filename() == "checkpoints")
    recipes.push_back(parent.parent_path() / "config.yaml");  // of a checkpoint without a state
  for (const std::filesystem::path& recipe : recipes)
    if (std::filesystem::is_regular_file(recipe)) {
      root_ = config::read_file(recipe.string());
      return;
    }
}

std::optional<std::string> RunRecipe::option(std::string_view objective, std::string_view section,
                                             std::string_view key) const {
  const config::Node *chosen = child(&root_, "objective"), *type = child(chosen, "type");
  const config::Node* found = child(child(&root_, section), key);
  if (!type || type->text() != objective) return std::nullopt;
  if (!found || found->kind() != config::Node::Kind::scalar || found->is_null()) return std::nullopt;
  return found->text();
}

std::optional<std::int64_t> RunRecipe::number(std::string_view objective, std::string_view section,
                                              std::string_view key) const {
  const std::optional<std::string> text = option(objective, section, key);
  return text ? parse_int(*text) : std::nullopt;
}

}  // namespace hone::cli
