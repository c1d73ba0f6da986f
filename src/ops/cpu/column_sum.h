// Kernels of ops::column_sum.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct ColumnSumKernels {
  // sums [cols] is overwritten.
  void (*sum)(const T* x, std::int64_t rows, std::int64_t cols, Wide<T>* sums);
  // The first `count` columns of `blocks` rows of sums that are `stride` apart.
  void (*join)(const Wide<T>* sums, std::int64_t blocks, std::int64_t stride, std::int64_t count, T* to);
};
HONE_KERNELS(ColumnSumKernels, column_sum_kernels)

}  // namespace hone::ops::cpu
