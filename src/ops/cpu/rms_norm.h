// Kernels of ops::rms_norm over rows [begin, end).
#pragma once

#include "hone/op_options.h"
#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// What normalised values are multiplied with.
template <class T>
struct RmsWeight {
  const T* weight;
  RmsFactor factor = RmsFactor::weight;
};

template <class T>
struct RmsNormKernels {
  // residual may be null; else sum = x + residual is written and normed.
  void (*forward)(const T* x, const T* residual, RmsWeight<T> weight, Wide<T> eps, std::int64_t rows, std::int64_t cols,
                  T* sum, T* y, Wide<T>* inv_rms);
  // extra: a gradient that reaches x directly, or null. dweight [cols] is overwritten. dx may be dy or extra.
  void (*backward)(const T* dy, const T* extra, const T* x, RmsWeight<T> weight, const Wide<T>* inv_rms,
                   std::int64_t rows, std::int64_t cols, T* dx, Wide<T>* dweight);
};
HONE_KERNELS(RmsNormKernels, rms_norm_kernels)

}  // namespace hone::ops::cpu
