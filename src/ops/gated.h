// The product of a gated MLP: act(gate) * up.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/op_options.h"
#include "ops/primitives.h"

namespace hone::ops {

// act(gate) * up, elementwise; computed in fp32 at least.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation);

// The gradients of gated(), for ops that contain it. REQUIRES: backend_for() takes all of them.
GatedGradients gated_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, Activation activation,
                              GatedWish wish = {});

namespace reference {
at::Tensor activate(const at::Tensor& x, Activation activation);
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation);
}  // namespace reference

}  // namespace hone::ops
