// Queries and keys of a memory that is corrected, in plain ATen.
#pragma once

#include <ATen/ATen.h>

namespace hone::ops {

// Over their lengths along the last dimension.
inline at::Tensor to_units(const at::Tensor& x) { return x * (x.square().sum(-1, /*keepdim=*/true) + 1e-6).rsqrt(); }

}  // namespace hone::ops
