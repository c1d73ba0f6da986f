// Kernels of ops::clamped_gate over a run of pairs.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct ClampedGateKernels {
  // both: `count` pairs of gate and up.
  void (*forward)(const T* both, std::int64_t count, Wide<T> alpha, Wide<T> limit, T* y);
  void (*backward)(const T* d, const T* both, std::int64_t count, Wide<T> alpha, Wide<T> limit, T* dboth);
};
HONE_KERNELS(ClampedGateKernels, clamped_gate_kernels)

}  // namespace hone::ops::cpu
