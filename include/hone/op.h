// What an op outside of hone's tree goes by: whether a kernel of its own may run. It may be called from any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "hone/error.h"

namespace hone::ops {

// Whether a kernel for the CPU may take these tensors: kernels are wanted (HONE_KERNELS=reference turns all off), and
// every tensor is a float, double or bfloat16 tensor in CPU memory, all of one type. Not asked: whether they are
// contiguous.
HONE_API bool cpu_kernel_fits(std::initializer_list<at::Tensor> tensors);

}  // namespace hone::ops
