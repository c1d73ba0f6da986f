// Routed experts whose matrices lie in one tensor each, as right factors, with biases and gpt-oss's gate.
//
// Letters: N tokens, E experts, K experts of a token, D hidden, I inner, J = 2 I: gate and up by turns.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"
#include "ops/clamped_gate.h"
#include "ops/experts.h"

namespace hone::ops {

struct StackedExperts {
  at::Tensor gate_up_EDJ, gate_up_bias_EJ, down_EID, down_bias_ED;
  GradientSum *gate_up_sum = nullptr, *down_sum = nullptr;  // take their gradients; null: autograd does
  ClampedGate gate = {};
};

// As routed_mlp(), of these experts. expert_NK: what `routing` was made of.
at::Tensor stacked_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const at::Tensor& expert_NK,
                       const Routing& routing, const StackedExperts& experts);

namespace reference {
at::Tensor stacked_mlp(const at::Tensor& x_ND, const at::Tensor& weight_NK, const Routing& routing,
                       const StackedExperts& experts);
}  // namespace reference

}  // namespace hone::ops
