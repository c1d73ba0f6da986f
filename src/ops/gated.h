// The product of a gated MLP: act(gate) * up.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/op_options.h"

namespace hone::ops {

// act(gate) * up, elementwise; computed in fp32 at least.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation);

struct GatedGradients {
  at::Tensor gate, up;
};
// The gradients of gated(), for ops that contain it; with overwrite, up's takes dy's memory. REQUIRES: kernels_take()
// all of them.
GatedGradients gated_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, Activation activation,
                              bool overwrite = false);

namespace reference {
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation);
}  // namespace reference

}  // namespace hone::ops
