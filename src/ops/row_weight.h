// What a norm multiplies rows with.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// Whether w has one value for each of a row's. Kernels look at no shapes: what does not fit is the reference's, which
// says so.
inline bool fits_rows(const at::Tensor& x, const at::Tensor& w) {
  return x.dim() > 0 && w.dim() == 1 && w.size(0) == x.size(-1);
}

}  // namespace hone::ops
