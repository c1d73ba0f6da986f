// What an addition with a norm behind it gives.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

struct AddNorm {
  at::Tensor sum, normed;
};

}  // namespace hone::ops
