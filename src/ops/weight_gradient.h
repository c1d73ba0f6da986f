// The gradient of a product's weight, and where it goes.
//
// Letters: N tokens, S rows by groups, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hone/gradient_sum.h"
#include "ops/row_groups.h"

namespace hone::ops {

// dy^T x: into its sum if it has one (then nothing is left for autograd), else as a new tensor. Zero for no tokens.
at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI, GradientSum* sum);

// The same of each group of rows whose gradient is wanted: into its sum, or as a new tensor in its place.
struct WeightPlace {
  bool wanted = false;
  GradientSum* sum = nullptr;
};
std::vector<at::Tensor> grouped_weight_gradients(const at::Tensor& dy_SO, const at::Tensor& x_SI,
                                                 const RowGroups& groups, const std::vector<WeightPlace>& places);

}  // namespace hone::ops
