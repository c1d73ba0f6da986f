// What ops outside of the tree go by.
#include "hone/op.h"

#include "ops/kernels.h"

namespace hone::ops {

bool cpu_kernel_fits(std::initializer_list<at::Tensor> tensors) { return kernels_take(tensors); }

}  // namespace hone::ops
