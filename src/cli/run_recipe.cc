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

std::optional<std::string> said(const config::Node* option) {
  if (!option || option->kind() != config::Node::Kind::scalar || option->is_null()) return std::nullopt;
  return option->text();
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
  return is_of(objective) ? said(child(child(&root_, section), key)) : std::nullopt;
}

bool RunRecipe::is_of(std::string_view objective) const {
  const config::Node* type = child(child(&root_, "objective"), "type");
  return type && type->text() == objective;
}

std::optional<std::int64_t> RunRecipe::max_length() const {
  const std::optional<std::string> text = said(child(child(&root_, "data"), "max_length"));
  return text ? parse_int(*text) : std::nullopt;
}

std::optional<std::int64_t> RunRecipe::number(std::string_view objective, std::string_view section,
                                              std::string_view key) const {
  const std::optional<std::string> text = option(objective, section, key);
  return text ? parse_int(*text) : std::nullopt;
}

}  // namespace hone::cli
