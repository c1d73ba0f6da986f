// Telling that a run computed with other numbers than its checkpoint's weights.
#include "cli/other_bits.h"

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/log.h"
#include "hone/config.h"

namespace hone::cli {
namespace {

// Of a recipe, below these sections; "": it does not say, or says that there is none.
std::string said(const config::Node& recipe, std::initializer_list<const char*> path) {
  const config::Node* node = &recipe;
  for (const char* key : path)
    if (!node->is_map() || !(node = node->find(key))) return "";
  const bool is_said = node->kind() == config::Node::Kind::scalar && !node->is_null();
  return is_said && node->text() != "none" && node->text() != "stored" ? node->text() : "";
}

// Of a run's checkpoint; another folder has none.
config::Node recipe_of(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "state" / "config.yaml";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  try {
    return config::read_file(file.string());
  } catch (const Error& error) {  // nothing else of it is asked for here
    log::warning("{}: what the run computed with cannot be read: {}", file.string(), error.what());
    return {};
  }
}

std::string held_below(const config::Node& recipe) { return said(recipe, {"model", "quantization", "type"}); }

}  // namespace

void warn_of_other_bits(const ModelPlace& place, const Quantization& quantization) {
  const std::filesystem::path& folder = place.adapter.empty() ? place.folder : place.adapter;
  const config::Node recipe = recipe_of(folder);
  if (const std::string grid = said(recipe, {"trainer", "qat", "weight_dtype"}); !grid.empty())
    log::warning(
        "{}: the run rounded its weights to {} in every pass (trainer.qat), here they are as they are stored; hone "
        "export RUN --grid {} makes a model of the rounded ones",
        folder.string(), grid, grid);
  const std::string held = held_below(recipe);
  if (!place.adapter.empty() && !held.empty() && quantization.type == QuantType::stored)
    log::warning(
        "{}: the run held the model below its adapter in {} (model.quantization), here it is as it is stored; "
        "--quantization {} computes as the run did",
        folder.string(), held, held);
}

void warn_of_merged_bits(const ModelPlace& place) {
  if (place.adapter.empty()) return;
  if (const std::string held = held_below(recipe_of(place.adapter)); !held.empty())
    log::warning(
        "{}: the run held the model below its adapter in {} (model.quantization), and it is merged with the model as "
        "it is stored, so that its numbers are others; hone eval of both says by how much",
        place.adapter.string(), held);
}

}  // namespace hone::cli
