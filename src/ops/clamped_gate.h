// gpt-oss's gate (OpenAI, 2025, arXiv:2508.10925): g sigmoid(alpha g) (u + 1), of g cut above at a limit and u on both
// sides.
//
// Letters: S rows, I inner, J = 2 I: g and u by turns.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/primitives.h"

namespace hone::ops {

// Computed in fp32 at least. No graph.
at::Tensor clamped_gate(const at::Tensor& both_SJ, const ClampedGate& gate);
// The gradient of both. What was cut gets none, what stands at the limit its own, as LibTorch's clamp.
at::Tensor clamped_gate_backward(const at::Tensor& d_SI, const at::Tensor& both_SJ, const ClampedGate& gate);

namespace reference {
at::Tensor clamped_gate(const at::Tensor& both_SJ, const ClampedGate& gate);
}  // namespace reference

}  // namespace hone::ops
