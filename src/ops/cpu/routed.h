// Kernels of a router's choice and of what its experts give, of few tokens.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// What one expert gives a token: y, with what is added to it first, rounded as y is (null: nothing), times `weight`.
template <class T>
struct RoutedPart {
  const T* y;
  const T* bias;
  Wide<T> weight;
};

template <class T>
struct RoutedSum {
  const RoutedPart<T>* parts;
  std::int64_t count, columns;
  T* to;
  // What is added to the rounded sum; null: nothing. is_gated: times `gate`, rounded, before.
  const T* shared = nullptr;
  bool is_gated = false;
  Wide<T> gate = 1;
};

template <class T>
struct RoutedKernels {
  void (*softmax)(const T* logits, std::int64_t count, Wide<T>* to);
  void (*sigmoid)(const T* logits, std::int64_t count, Wide<T>* to);
  // Parts one after another.
  void (*add_up)(const RoutedSum<T>& sum);
  // y[r, o] = x[r] . weight[o] in fp32 (fp64): x [rows, in], weight [outs, in], y `stride` apart. Bits of a row do not
  // depend on the other rows.
  void (*multiply)(const T* x, const T* weight, std::int64_t rows, std::int64_t in, std::int64_t outs, Wide<T>* y,
                   std::int64_t stride);
};
HONE_KERNELS(RoutedKernels, routed_kernels)

}  // namespace hone::ops::cpu
