// xIELU (Huang and Schlag, 2024, arXiv:2411.13010): a parabola above 0 and a smooth bend below, whose steepness is
// learnt.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// What it is made of: two learnt numbers, and two that are fixed, without dimensions.
struct Xielu {
  at::Tensor positive_1, negative_1;
  at::Tensor beta;  // the slope at 0
  at::Tensor eps;   // below 0, exponents are cut to at most this
};

// Of each number of x: a_p x^2 + beta x above 0, else a_n (e^min(x, eps) - 1 - x) + beta x, where a_p is the softplus
// of `positive`, and a_n that of `negative`, and beta. In fp32 at least, rounded once; with a graph.
at::Tensor xielu(const at::Tensor& x, const Xielu& form);

namespace reference {
at::Tensor xielu(const at::Tensor& x, const Xielu& form);
}  // namespace reference

}  // namespace hone::ops
