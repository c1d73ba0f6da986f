// A tensor of an adapter's file, as it is to be written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hone/module.h"

namespace hone::hub {

// What weights are called in PEFT's files begins with this.
inline constexpr const char* kPeftPrefix = "base_model.model.";

// A tensor of an adapter's file: the weights that it is made of, whose rows or columns it stacks. What `made` gives is
// valid until any of them changes.
struct AdapterTensor {
  std::string name;  // as PEFT's files have it
  std::vector<std::int64_t> shape;
  std::function<Tensor(const std::function<Tensor(Weight&)>& value_of)> made;
};

}  // namespace hone::hub
