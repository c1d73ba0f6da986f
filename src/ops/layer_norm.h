// Layer normalisation of the last dimension (Ba, Kiros and Hinton, 2016).
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"
#include "ops/add_norm.h"

namespace hone::ops {

// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, in fp32 at least and rounded once, as
// LibTorch does. bias may be undefined. The sums take the gradients of weight and bias; null: autograd does.
struct LayerNormSums {
  GradientSum *weight = nullptr, *bias = nullptr;
};
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      LayerNormSums sums = {});

// sum = x + residual (x itself where that is undefined); normed = layer_norm(sum). One pass for the two.
AddNorm add_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps, LayerNormSums sums = {});

namespace reference {
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps);
AddNorm add_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps);
}  // namespace reference

}  // namespace hone::ops
