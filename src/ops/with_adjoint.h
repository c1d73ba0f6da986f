// A linear function that is not made of ops, with its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hone::ops {

using Tensors = std::vector<at::Tensor>;

// there(inputs), whose gradients are back(gradients of what it gave): its adjoint. Both are called without a graph, by
// the thread that goes forward or backward, and once each.
Tensors with_adjoint(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& there,
                     std::function<Tensors(const Tensors&)> back);

}  // namespace hone::ops
