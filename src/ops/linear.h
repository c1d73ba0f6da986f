// Products with weights: y = x W^T + b, several of one input together, and the gated MLP's last one.
//
// Letters: N tokens, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/gated.h"
#include "ops/linear_weight.h"
#include "ops/primitives.h"

namespace hone::ops {

// [..., I] -> [..., O].
at::Tensor linear(const at::Tensor& x, const LinearWeight& weight);

// The same x with each of the weights. Its gradient is summed over them before it is rounded.
std::vector<at::Tensor> linears(const at::Tensor& x, const std::vector<LinearWeight>& weights);

// A norm before products: sum = x + residual (x itself if `residual` is undefined), and rms_norm(sum) with each of the
// weights. The normed value is made again in backward rather than kept. norm_sum takes norm_I's gradient.
NormedProducts norm_linears(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, RmsNormForm form,
                            const std::vector<LinearWeight>& weights, GradientSum* norm_sum = nullptr);

// linear(gated(gate, up), weight). The product of gate and up is made again in backward rather than kept.
at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation,
                        const LinearWeight& weight);

// A block's gated MLP: down(gated(gate(x), up(x))).
struct GatedMlpWeights {
  LinearWeight gate, up, down;
};
at::Tensor gated_mlp(const at::Tensor& x, const GatedMlpWeights& weights, Activation activation);

// With its norm before it: sum = x + residual (or x), y = the MLP of rms_norm(sum).
struct NormGatedMlp {
  at::Tensor sum, y;
};
NormGatedMlp norm_gated_mlp(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, RmsNormForm form,
                            const GatedMlpWeights& weights, Activation activation, GradientSum* norm_sum = nullptr);

namespace reference {
at::Tensor linear(const at::Tensor& x, const LinearWeight& weight);
at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation,
                        const LinearWeight& weight);
}  // namespace reference

}  // namespace hone::ops
