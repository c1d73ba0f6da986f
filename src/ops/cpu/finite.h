// Kernel of ops::all_finite.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct FiniteKernels {
  bool (*all_finite)(const T* x, std::int64_t count);
};
HONE_KERNELS(FiniteKernels, finite_kernels)

}  // namespace hone::ops::cpu
