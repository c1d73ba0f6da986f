// Gradient checkpointing: keep the input of a function, compute it again when its gradient is needed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hone::ops {

// run(x) with the gradients of run(x), of x and of every weight that run uses, bit for bit; what run keeps for them is
// dropped and made again in backward. run must give the same result each time and must outlive the backward pass.
at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> run, const at::Tensor& x);
// The same for several outputs; those that nobody uses cost nothing in backward.
std::vector<at::Tensor> checkpoint(std::function<std::vector<at::Tensor>(const at::Tensor&)> run, const at::Tensor& x);
// And for several inputs, of which there is one at least; those that are not used get no gradient.
std::vector<at::Tensor> checkpoint(
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> run, const std::vector<at::Tensor>& inputs);

// Whether this thread computes without a graph what a checkpoint will compute again with one. Both must be the same
// bits: kernels for few rows, which add in another order, are not for it.
bool is_computed_again();

}  // namespace hone::ops
