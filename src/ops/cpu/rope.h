// Kernel of ops::rope over tokens.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// x, y: per token `heads` times 2 half values, tokens x_stride and y_stride values apart; y may be x. cos, sin: [P,
// half]; rows[token] is the row of the tables. back: rotate the other way.
template <class T>
struct RopeArgs {
  const T* x = nullptr;
  std::int64_t x_stride = 0;
  const Wide<T>*cos = nullptr, *sin = nullptr;
  const std::int64_t* rows = nullptr;
  std::int64_t tokens = 0, heads = 0, half = 0;
  bool back = false;
  T* y = nullptr;
  std::int64_t y_stride = 0;
};

template <class T>
struct RopeKernels {
  void (*rotate)(const RopeArgs<T>& args);
};
HONE_KERNELS(RopeKernels, rope_kernels)

}  // namespace hone::ops::cpu
