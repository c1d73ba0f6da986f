// Kernel of ops::decode_attention: one token of one row against its cache.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// The query heads that share a key/value head.
template <class T>
struct DecodeTask {
  const T *q, *k, *v;  // [heads, size], [length, size], [length, size]
  std::int64_t heads, length, size;
  Wide<T> scale;
  Wide<T>* room;  // heads * length values
  T* y;           // [heads, size]
  Wide<T> soft_cap = 0;
  const Wide<T>* sinks = nullptr;  // of each head; null: none
};

template <class T>
struct DecodeKernels {
  void (*attend)(const DecodeTask<T>& task);
};
HONE_DOT_KERNELS(DecodeKernels, decode_kernels)

}  // namespace hone::ops::cpu
