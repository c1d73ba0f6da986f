// Kernels of ops::gated_head_norm over tokens.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct HeadNormArgs {
  const T *x = nullptr, *gate = nullptr;  // [tokens, heads * size]
  const T* weight = nullptr;              // [heads * size]
  Wide<T> eps = 0;
  std::int64_t tokens = 0, heads = 0, size = 0;
  T* y = nullptr;
  Wide<T>*mean = nullptr, *inv_std = nullptr;  // [tokens, heads]
};

template <class T>
struct HeadNormGradientArgs {
  const T* dy = nullptr;
  const T *x = nullptr, *gate = nullptr, *weight = nullptr;
  const Wide<T>*mean = nullptr, *inv_std = nullptr;
  std::int64_t tokens = 0, heads = 0, size = 0;
  T *dx = nullptr, *dgate = nullptr;
  Wide<T>* dweight = nullptr;  // [heads * size], overwritten
};

template <class T>
struct HeadNormKernels {
  void (*forward)(const HeadNormArgs<T>& args);
  void (*backward)(const HeadNormGradientArgs<T>& args);
};
HONE_KERNELS(HeadNormKernels, head_norm_kernels)

}  // namespace hone::ops::cpu
