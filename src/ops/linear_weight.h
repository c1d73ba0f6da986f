// A weight of products, its bias, and where their gradients go.
//
// Letters: I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"

namespace hone::ops {

struct LinearWeight {
  at::Tensor weight_OI;
  at::Tensor bias_O;           // undefined: none
  GradientSum *sum = nullptr, *bias_sum = nullptr;  // take their gradients; null: autograd does
};

}  // namespace hone::ops
