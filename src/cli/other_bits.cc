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

}  // namespace

void warn_of_other_bits(const ModelPlace& place, const Quantization& quantization) {
  const std::filesystem::path& folder = place.adapter.empty() ? place.folder : place.adapter;
  const std::filesystem::path file = folder / "state" / "config.yaml";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return;
  config::Node recipe;
  try {
    recipe = config::read_file(file.string());
  } catch (const Error& error) {  // nothing else of it is asked for here
    return log::warning("{}: what the run computed with cannot be read: {}", file.string(), error.what());
  }
  if (const std::string grid = said(recipe, {"trainer", "qat", "weight_dtype"}); !grid.empty())
    log::warning(
        "{}: the run rounded its weights to {} in every pass (trainer.qat), here they are as they are stored; hone "
        "export RUN --grid {} makes a model of the rounded ones",
        folder.string(), grid, grid);
  const std::string held = said(recipe, {"model", "quantization", "type"});
  if (!place.adapter.empty() && !held.empty() && quantization.type == QuantType::stored)
    log::warning(
        "{}: the run held the model below its adapter in {} (model.quantization), here it is as it is stored; "
        "--quantization {} computes as the run did",
        folder.string(), held, held);
}

}  // namespace hone::cli
