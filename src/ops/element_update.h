// An optimizer's update whose rule for one element comes as text: a device with a compiler makes one pass of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace hone::ops {

// Of one weight. Master, gradient and states have the same shape and type, fp32 or fp64, and are dense.
struct ElementUpdate {
  std::string_view rule;                 // src/optim/elements/<rule>.h; lives as long as the program
  std::span<const std::byte> constants;  // that file's Element<T>, T the master's type
  at::Tensor master, gradient;
  std::span<const at::Tensor> states;
  at::Tensor rounded;  // bf16 or fp16: takes the master's rounding; undefined: there is none
  // fp64, one element: the gradient is multiplied by it; not a number: nothing changes. Undefined: 1.
  at::Tensor scale;
};

}  // namespace hone::ops
