// Kernel of ops::decode_attention: one token of one row against its cache.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct DecodeKernels {
  // q, y: [heads, size]; k, v: [length, size]; room: heads * (length + size) values.
  void (*attend)(const T* q, const T* k, const T* v, std::int64_t heads, std::int64_t length, std::int64_t size,
                 Wide<T> scale, Wide<T>* room, T* y);
};
HONE_KERNELS(DecodeKernels, decode_kernels)

}  // namespace hone::ops::cpu
