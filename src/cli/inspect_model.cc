// hone inspect model: the weights of a folder, or as a recipe's run will have them.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/inspect.h"
#include "cli/recipe.h"
#include "hone/hub.h"
#include "hub/model_tensors.h"
#include "hub/quantized_files.h"
#include "hub/tensor_names.h"
#include "hub/tied_head.h"
#include "io/gguf_given.h"
#include "nn/flops.h"
#include "tensor/dtype.h"
#include "train/complete.h"
#include "train/inputs.h"
#include "train/weight_table.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

ordered_json tokenizer_report(const Tokenizer& tokenizer) {
  const auto id = [](const std::optional<std::int32_t>& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  return {{"vocab_size", tokenizer.vocab_size()}, {"bos_token_id", id(tokenizer.bos_id)},
          {"eos_token_id", id(tokenizer.eos_id)}, {"pad_token_id", id(tokenizer.pad_id)},
          {"adds_bos", tokenizer.adds_bos},       {"adds_eos", tokenizer.adds_eos}};
}

// As they lie in the files; of a weight that is in none, as one that is tied under another name, nothing is said.
ordered_json weights_report(Model& model, const hub::ModelTensors& tensors) {
  ordered_json rows = ordered_json::array();
  const hub::QuantizedFiles quantized(tensors.all());
  const hub::TensorNames names(model, quantized.weights(), FreshWeights{.any = true});
  model.each_weight([&](const std::string& name, Weight& weight) {
    ordered_json row = {{"name", name}, {"shape", weight.shape()}};
    bool quantized_there = false;  // then it can only be frozen
    if (const auto* found = names.of(name)) {
      const auto held = quantized.as(found->first);
      quantized_there = held.has_value();
      row["dtype"] = held ? hub::name_of(held->type) : found->second.tensor->dtype;
      row["bytes"] = found->second.tensor->bytes();
    }
    row.update(ordered_json{{"parameters", weight.numel()},
                            {"trainable", weight.trainable() && !quantized_there},
                            {"decays", weight.decays() && !quantized_there}});
    rows.push_back(std::move(row));
  });
  return rows;
}

ordered_json of_folder(const std::string& where) {
  const fs::path folder = find_model_folder(where);
  const auto model =
      build_model(config::read_file((folder / "config.json").string()), (folder / "config.json").string());
  ordered_json files = ordered_json::object();
  const hub::ModelTensors tensors(folder);
  hub::check_tied_head(*model, tensors.all());
  std::uint64_t bytes = 0;
  for (const auto& [name, place] : tensors.all()) {
    auto& count = files[place.tensor->dtype];
    count = count.is_null() ? 1 : count.get<int>() + 1;
    bytes += place.tensor->bytes();
  }
  ordered_json report = {{"folder", folder.string()},
                         {"parameters", model->parameter_count()},
                         {"stored_bytes", bytes},
                         {"tensors_by_dtype", files},
                         {"config", ordered_json::parse(config::to_json(model->hf_config()))}};
  if (fs::exists(folder / "tokenizer.json")) report["tokenizer"] = tokenizer_report(*load_tokenizer(folder.string()));
  report["flops_per_token"] = nn::flops_per_token(*model, {}).forward;
  report["weights"] = weights_report(*model, tensors);
  return report;
}

// Of each group what all of its weights come to.
ordered_json groups_of(const std::vector<training::WeightRow>& rows) {
  std::vector<std::string> order;
  std::map<std::string, ordered_json> groups;
  for (const training::WeightRow& row : rows) {
    if (!groups.contains(row.group)) {
      order.push_back(row.group);
      groups[row.group] = {{"group", row.group}, {"weights", 0}, {"parameters", 0}, {"bytes", 0},
                           {"optimizer_bytes", 0}};
    }
    ordered_json& group = groups[row.group];
    const auto add = [&](const char* name, std::uint64_t count) {
      group[name] = group[name].get<std::uint64_t>() + count;
    };
    add("weights", 1), add("parameters", static_cast<std::uint64_t>(row.parameters));
    add("bytes", row.bytes), add("optimizer_bytes", row.optimizer_bytes);
  }
  ordered_json made = ordered_json::array();
  for (const std::string& name : order) made.push_back(groups[name]);
  return made;
}

ordered_json of_recipe(const std::string& file) {
  const Recipe recipe = training::completed_for_preview(whole_recipe({{file}, {}}, {}));
  const training::Inputs inputs = training::load_inputs(recipe, "");
  const std::vector<training::WeightRow> rows = training::weight_table(recipe, inputs);
  std::int64_t parameters = 0, trained = 0;
  ordered_json weights = ordered_json::array();
  for (const training::WeightRow& row : rows) {
    parameters += row.group == "buffer" ? 0 : row.parameters, trained += row.trainable ? row.parameters : 0;
    weights.push_back({{"name", row.name},
                       {"shape", row.shape},
                       {"dtype", row.dtype},
                       {"parameters", row.parameters},
                       {"bytes", row.bytes},
                       {"trainable", row.trainable},
                       {"weight_decay", row.weight_decay},
                       {"group", row.group},
                       {"learning_rate_factor", row.learning_rate},
                       {"optimizer_bytes", row.optimizer_bytes}});
  }
  const std::unique_ptr<Model> model = training::meta_model(inputs, recipe.trainer.precision);
  const nn::TokenFlops flops =
      nn::flops_per_token(*model, {.document_length = static_cast<double>(recipe.data.max_length)});
  return {{"recipe", file},
          {"parameters", parameters},
          {"trained_parameters", trained},
          {"flops_per_token", {{"forward", flops.forward}, {"training", flops.training()},
                               {"document_length", recipe.data.max_length}}},
          {"groups", groups_of(rows)},
          {"weights", weights}};
}

}  // namespace

ordered_json inspect_model(const std::string& where) {
  std::error_code ignored;
  if (io::is_gguf(where)) throw io::a_gguf(where);
  return fs::is_regular_file(where, ignored) ? of_recipe(where) : of_folder(where);
}

}  // namespace hone::cli
