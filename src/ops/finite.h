// Whether values are numbers that can be computed with.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace hone::ops {

// None is infinite or not a number. Reads every value once and makes nothing.
bool all_finite(const at::Tensor& x);
bool all_finite(std::span<const float> values);

}  // namespace hone::ops
