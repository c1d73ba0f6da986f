// The gradient of a product's weight, and where it goes.
//
// Letters: N tokens, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"

namespace hone::ops {

// dy^T x: into its sum if it has one (then nothing is left for autograd), else as a new tensor. Zero for no tokens.
at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI, GradientSum* sum);

}  // namespace hone::ops
