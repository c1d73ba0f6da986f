// Compares tensors and says where they differ most.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace hone {

// "" when |got - expected| <= tolerance everywhere (a NaN never is); else the worst element, its index, both values.
// REQUIRES: nothing; a difference in shape is reported as such.
std::string difference(const at::Tensor& got, const at::Tensor& expected, double tolerance);
double largest(const at::Tensor& x);  // max |x|, 0 when empty

}  // namespace hone
