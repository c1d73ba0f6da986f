// A call in the middle of a backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace hone::ops {

// x, behind which the backward pass calls `act`: after everything that was made of x, before what x was made of. x
// itself where it has no gradient.
at::Tensor when_backward(const at::Tensor& x, std::function<void()> act);

}  // namespace hone::ops
