// Kernels of ops::gated over a run of elements.
#pragma once

#include "hone/op_options.h"
#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct GatedKernels {
  void (*forward)(Activation activation, const T* gate, const T* up, std::int64_t count, T* y);
  // inner: where the product itself goes; null: it is not wanted.
  void (*backward)(Activation activation, const T* dy, const T* gate, const T* up, std::int64_t count, T* dgate,
                   T* dup, T* inner);
};
HONE_KERNELS(GatedKernels, gated_kernels)

}  // namespace hone::ops::cpu
