// The product of a gated MLP: act(gate) * up.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

enum class Activation { silu, gelu, gelu_tanh, relu };

// act(gate) * up, elementwise; computed in fp32 at least.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation);

namespace reference {
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation);
}  // namespace reference

}  // namespace hone::ops
