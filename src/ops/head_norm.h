// A norm by heads, and a gate of what it gives, as one op (xLSTM's MultiHeadLayerNorm and output gate).
//
// Letters: N tokens, H heads, K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"

namespace hone::ops {

// sigmoid(gate) * (x - mean) / sqrt(variance + eps) * weight, with mean and variance over K; x [N,H,K], weight [H K],
// gate and result [..., H K]. Rounded once. weight_sum: takes the weight's gradient.
at::Tensor gated_head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps,
                           GradientSum* weight_sum = nullptr);

namespace reference {
at::Tensor gated_head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps);
}  // namespace reference

}  // namespace hone::ops
