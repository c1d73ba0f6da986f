// Which weights are held in fewer bits.
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "base/strings.h"
#include "config/patterns.h"
#include "hone/hub.h"
#include "hub/model_tensors.h"
#include "hub/quantized_files.h"
#include "hub/tensor_names.h"
#include "nn/experts.h"

namespace hone {
namespace {

// A router's choice would turn with a rounded logit.
bool is_of_router(const std::string& name) {
  return name.ends_with(".weight") && nn::is_router(name.substr(0, name.rfind('.')));
}

bool can_be_quantized(const std::string& name, const Weight& weight) {
  return weight.use_as() == WeightUse::product && !weight.trainable() && !is_of_router(name);
}

std::set<const Weight*> weights_in_blocks(const Model& model) {
  std::set<const Weight*> all;
  for (const Block* block : model.blocks())
    block->each_weight([&](const std::string&, const Weight& weight) { all.insert(&weight); });
  return all;
}

// What the folder's tensors are held as, by the weights that they fill.
std::map<std::string, QuantizedAs> held_in(Model& model, const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  const hub::ModelTensors tensors(folder, model.pictures() != nullptr);
  const hub::QuantizedFiles quantized(tensors.all());
  const hub::TensorNames names(model, quantized.weights(), FreshWeights{.any = true});
  std::map<std::string, QuantizedAs> held;
  model.each_weight([&](const std::string& name, Weight&) {
    if (const auto* tensor = names.of(name))
      if (const auto as = quantized.as(tensor->first)) held[name] = *as;
  });
  return held;
}

class ChoiceOfLinears {
 public:
  explicit ChoiceOfLinears(const Quantization& how) : how_(how), used_(how.skip.size()) {
    for (const std::string& pattern : how.skip) expressions_.emplace_back(pattern);
  }
  // stored: nothing where the folder holds it in full.
  QuantizedAs of(const std::string& name, const std::map<std::string, QuantizedAs>& stored) {
    bool skipped = false;
    for (std::size_t i = 0; i < expressions_.size(); ++i)
      if (std::regex_search(name, expressions_[i])) skipped = used_[i] = true;
    if (skipped) return {};
    const auto there = stored.find(name);
    const bool is_there = there != stored.end();
    if (how_.type == QuantType::stored) return is_there ? there->second : QuantizedAs();
    if (is_there && how_.type == there->second.type && (how_.double_quant || !there->second.double_quant))
      return there->second;
    return {how_.type, how_.double_quant && how_.type != QuantType::int8};
  }
  void check_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i])
        throw Error(ErrorKind::config, fmt::format("quantization.skip: {} matches no weight that can be quantized",
                                                   hone::quoted(how_.skip[i])));
  }

 private:
  const Quantization& how_;
  std::vector<std::regex> expressions_;
  std::vector<bool> used_;
};

// Options that say nothing of such a type.
void check(const Quantization& how) {
  Problems problems;
  config::check_patterns(how.skip, "skip", problems);
  const bool scales = how.type == QuantType::nf4 || how.type == QuantType::fp4;
  problems.require(how.skip.empty() || how.type != QuantType::none, "skip", "nothing is quantized");
  problems.require(how.double_quant || scales, "double_quant",
                   fmt::format("false is for nf4 and fp4, not for {}", hub::name_of(how.type)));
  problems.raise("quantization");
}

}  // namespace

void choose_quantized(Model& model, const Quantization& how, const std::filesystem::path& folder) {
  check(how);
  if (how.type == QuantType::none) return;
  const std::map<std::string, QuantizedAs> stored = held_in(model, folder);
  if (how.type == QuantType::stored && stored.empty()) {
    if (how.skip.empty()) return;
    throw Error(ErrorKind::config, "quantization.skip: nothing is quantized: the model's folder holds it in full")
        .hint("quantization.type: nf4, fp4 or int8");
  }
  const std::set<const Weight*> within = weights_in_blocks(model);
  ChoiceOfLinears choice(how);
  bool any = false, all_skipped = true;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (!within.contains(&weight) || !can_be_quantized(name, weight)) return;
    any = true;
    weight.set_held_as(choice.of(name, stored));
    all_skipped &= weight.held_as().type == QuantType::none;
  });
  if (!any && how.type != QuantType::stored)
    throw Error(ErrorKind::config,
                fmt::format("quantization {}: no weight of this model of type {} can be quantized: none of its blocks "
                            "has one that is not trained and makes x W^T",
                            hub::name_of(how.type), model.hf_config().find("model_type")->text()))
        .hint("without it weights are held in full");
  if (any) choice.check_used();
  if (any && all_skipped && how.type != QuantType::stored)
    throw Error(ErrorKind::config, "quantization.skip: leaves no weight to quantize");
}

}  // namespace hone
