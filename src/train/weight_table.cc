// A recipe's weights.
#include "train/weight_table.h"

#include <ATen/ATen.h>

#include <map>

#include "hub/memory.h"
#include "hub/quantized_files.h"
#include "nn/weight_groups.h"
#include "ops/quantized.h"
#include "optim/state_names.h"
#include "tensor/dtype.h"
#include "tensor/meta_memory.h"
#include "train/inputs.h"
#include "train/make_optimizer.h"

namespace hone::training {
namespace {

struct Trained {
  OptimizedWeight weight;
  std::uint64_t state = 0;
};

std::map<std::string, Trained> trained_of(Model& model, Optimizer& optimizer, at::ScalarType wide) {
  std::vector<OptimizedWeight> weights;
  for (const nn::WeightGroup& group : nn::weight_groups(model))
    for (const nn::GroupedWeight& one : group.weights) {
      const Tensor& value = one.weight->use();
      const Tensor master = at::empty(value.sizes(), value.options().dtype(wide).requires_grad(false));
      weights.push_back({one.name, one.weight, master, {}, {}, one.weight->decays(), weights.size()});
    }
  optimizer.attach(weights);
  std::map<std::string, std::uint64_t> bytes;
  for (const OptimizedWeight& weight : weights) bytes[weight.name] = 0;
  optimizer.each_state([&](const std::string& name, Tensor& state) {
    if (name.starts_with("ema.")) return;  // trainer.ema is not the optimizer's
    if (const std::string own = optim::weight_of(name, bytes); !own.empty()) bytes[own] += state.nbytes();
  });
  std::map<std::string, Trained> all;
  for (const OptimizedWeight& weight : weights) all[weight.name] = {weight, bytes[weight.name]};
  return all;
}

}  // namespace

std::vector<WeightRow> weight_table(const Recipe& recipe, const Inputs& inputs) {
  const MetaMemory memory;
  const Precision run = recipe.trainer.precision;
  const std::unique_ptr<Model> model = meta_model(inputs, run);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(recipe);
  const auto trained = trained_of(*model, *optimizer, run == Precision::fp64 ? at::kDouble : at::kFloat);
  std::vector<WeightRow> rows;
  model->each_with_adapters([&](const std::string& name, Weight& weight) {
    WeightRow row;
    row.name = name;
    row.shape = weight.shape();
    row.parameters = weight.numel();
    row.trainable = weight.trainable();
    const at::ScalarType type = hub::type_of(weight, run);
    row.dtype = safetensors_name(type);
    row.bytes = static_cast<std::uint64_t>(row.parameters) * c10::elementSize(type);
    if (const QuantizedAs held = weight.held_as(); held.type != QuantType::none)
      row.dtype = hub::name_of(held.type), row.bytes = ops::quantized_bytes(weight.shape(), held);
    row.group = weight.is_buffer() ? "buffer" : "frozen";
    if (const auto found = trained.find(name); found != trained.end()) {
      const OptimizedWeight& own = found->second.weight;
      const std::string part = optimizer->part_of(own);
      row.group = part.empty() ? recipe.optimizer.type : part;
      row.weight_decay = optimizer->weight_decay(own);
      row.learning_rate = weight.learning_rate_scale();
      row.optimizer_bytes = found->second.state;
    }
    rows.push_back(std::move(row));
  });
  return rows;
}

}  // namespace hone::training
