// A model that is not there.
#include "train/meta_twin.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "hub/memory.h"
#include "nn/lora_targets.h"
#include "nn/slices.h"
#include "nn/unpacking.h"

namespace hone::training {

void fill_meta(Weight& weight, WeightTypes types) {
  const auto options = at::TensorOptions().device(at::kMeta).dtype(hub::type_of(weight, types));
  weight.fill(at::empty(weight.layout().shape, options));
}

std::unique_ptr<Model> meta_twin(const Model& model, const std::filesystem::path& source, WeightTypes types,
                                 int slices) {
  HeadRequest head;
  if (const Classifier* one = model.classifier()) {
    head.labels = one->labels();
    head.of_tokens = one->of_tokens(), head.answers_questions = one->answers_questions();
  }
  head.masked_lm = model.masked_lm() != nullptr;
  const std::string file = source.empty() ? "model" : (source / "config.json").string();
  std::unique_ptr<Model> twin = build_model(model.hf_config(), file, head);
  if (slices > 1) nn::cut_weights(*twin, slices - 1, slices);
  std::map<std::string, const Weight*> given;
  model.each_weight([&](const std::string& name, const Weight& weight) { given[name] = &weight; });
  twin->each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.is_buffer()) weight.set_trainable(given.at(name)->trainable());
    weight.set_held_as(given.at(name)->held_as());
    weight.set_fake_quantized(given.at(name)->fake_quantized());
    fill_meta(weight, types);
  });
  nn::unpack_in_blocks(*twin);
  return twin;
}

std::unique_ptr<Model> meta_twin(const Model& given, const std::filesystem::path& source, LoraConfig adapter,
                                 WeightTypes types, int slices) {
  std::unique_ptr<Model> model = meta_twin(given, source, types, slices);
  std::erase_if(adapter.modules_to_save, [&](const std::string& name) {  // PEFT lists heads of other models as well
    const auto all = nn::whole_modules(*model, {name});
    return std::none_of(all.begin(), all.end(), [&](const auto& one) { return nn::is_within_any(one.module, {name}); });
  });
  apply_lora(*model, adapter, /*seed=*/0);
  return model;
}

}  // namespace hone::training
