// Kernel of ops::linear_cross_entropy over rows of logits.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct CrossEntropyArgs {
  T* logits = nullptr;                   // [rows, vocab]; replaced by their gradient if `gradient`
  const std::int64_t* labels = nullptr;  // [rows], all in range
  const Wide<T>* weight = nullptr;       // [rows]
  std::int64_t rows = 0, vocab = 0;
  Wide<T> smoothing = 0, z_loss = 0;
  bool by_probability = false;
  bool gradient = false;
  Wide<T>* losses = nullptr;      // [rows]: weight * loss
  Wide<T>* statistics = nullptr;  // [rows, 4] as ops/backend.h has them; null: not wanted
};

template <class T>
struct CrossEntropyKernels {
  void (*run)(const CrossEntropyArgs<T>& args);
};
HONE_KERNELS(CrossEntropyKernels, cross_entropy_kernels)

}  // namespace hone::ops::cpu
