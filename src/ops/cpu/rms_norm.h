// Kernels of ops::rms_norm over rows [begin, end).
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct RmsNormKernels {
  // residual may be null; else sum = x + residual is written and normed.
  void (*forward)(const T* x, const T* residual, const T* weight, Wide<T> eps, std::int64_t rows, std::int64_t cols,
                  T* sum, T* y, Wide<T>* inv_rms);
  // extra: a gradient that reaches x directly, or null. dweight [cols] is overwritten. dx may be dy or extra.
  void (*backward)(const T* dy, const T* extra, const T* x, const T* weight, const Wide<T>* inv_rms, std::int64_t rows,
                   std::int64_t cols, T* dx, Wide<T>* dweight);
};
HONE_KERNELS(RmsNormKernels, rms_norm_kernels)

}  // namespace hone::ops::cpu
