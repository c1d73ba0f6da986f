// A tensor of an adapter's file, as it is to be written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hone/model.h"
#include "hone/module.h"

namespace hone::hub {

// What weights are called in PEFT's files begins with this.
inline constexpr const char* kPeftPrefix = "base_model.model.";

// What transformers calls a weight or a module in memory, and PEFT therefore in its files: of Nemotron-H the body has
// another name in the model's own files.
inline std::string name_in_memory(const Model& model, const std::string& name) {
  const std::string body = model.base_prefix();
  if (body != "backbone." || !name.starts_with(body)) return name;
  const config::Node config = model.hf_config();
  const config::Node* type = config.find("model_type");
  return type && type->text() == "nemotron_h" ? "model." + name.substr(body.size()) : name;
}

// A tensor of an adapter's file: the weights that it is made of, whose rows or columns it stacks. What `made` gives is
// valid until any of them changes.
struct AdapterTensor {
  std::string name;  // as PEFT's files have it
  std::vector<std::int64_t> shape;
  std::function<Tensor(const std::function<Tensor(Weight&)>& value_of)> made;
};

}  // namespace hone::hub
