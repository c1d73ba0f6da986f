// Stretches of rows put one after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

// x's rows of each stretch, in this order; a row may be in several, or in none. Its gradient is the sum of theirs.
at::Tensor take_rows(const at::Tensor& x_N, const std::vector<Span>& stretches);

}  // namespace hone::ops
