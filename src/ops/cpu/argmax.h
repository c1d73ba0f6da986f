// Kernel of ops::argmax.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct ArgmaxKernels {
  std::int64_t (*find)(const T* x, std::int64_t count);
};
HONE_KERNELS(ArgmaxKernels, argmax_kernels)

}  // namespace hone::ops::cpu
