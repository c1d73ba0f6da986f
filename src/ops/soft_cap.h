// Logits that cannot grow without end: l becomes cap tanh(l / cap) (Gemma 2, 2024, arXiv:2408.00118).
//
// Letters: C tokens of a chunk, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// With a graph; x itself where cap is 0.
at::Tensor soft_capped(const at::Tensor& x, double cap);

// The same in place, outside autograd, computed in fp32 at least. slope_CV, unless undefined, gets the derivative.
void soft_cap_in_place(at::Tensor& logits_CV, double cap, at::Tensor slope_CV = {});

}  // namespace hone::ops
