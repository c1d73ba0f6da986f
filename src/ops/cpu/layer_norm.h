// Kernels of ops::layer_norm over rows.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct LayerNormArgs {
  const T *x = nullptr, *residual = nullptr;  // residual: null, or added to x before all else
  const T *weight = nullptr, *bias = nullptr;
  Wide<T> eps = 0;
  std::int64_t rows = 0, cols = 0;
  T *sum = nullptr, *y = nullptr;  // sum: x + residual, if there is one
  Wide<T>*mean = nullptr, *inv_std = nullptr;
};

template <class T>
struct LayerNormGradientArgs {
  const T *dy = nullptr, *extra = nullptr;  // extra: a gradient that reaches x directly, or null
  const T *x = nullptr, *weight = nullptr;
  const Wide<T>*mean = nullptr, *inv_std = nullptr;
  std::int64_t rows = 0, cols = 0;
  T* dx = nullptr;
  Wide<T>*dweight = nullptr, *dbias = nullptr;  // [cols], overwritten
};

template <class T>
struct LayerNormKernels {
  void (*forward)(const LayerNormArgs<T>& args);
  void (*backward)(const LayerNormGradientArgs<T>& args);
};
HONE_KERNELS(LayerNormKernels, layer_norm_kernels)

}  // namespace hone::ops::cpu
