// Kernel of ops::rope over tokens.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct RopeKernels {
  // x, y: [tokens, heads, 2 half]; cos, sin: [P, half]; rows[token] is the row of the tables. back: rotate the other
  // way.
  void (*rotate)(const T* x, const Wide<T>* cos, const Wide<T>* sin, const std::int64_t* rows, std::int64_t tokens,
                 std::int64_t heads, std::int64_t half, bool back, T* y);
};
HONE_KERNELS(RopeKernels, rope_kernels)

}  // namespace hone::ops::cpu
