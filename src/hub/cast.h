// Weights in another type on their way to a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace hone::hub {

// whole.to(type). Error(checkpoint), which begins with `what`, where a number becomes infinite that was not: the type
// cannot hold it. Infinite ones stay as they are.
at::Tensor cast_weight(const at::Tensor& whole, at::ScalarType type, const std::string& what);

}  // namespace hone::hub
