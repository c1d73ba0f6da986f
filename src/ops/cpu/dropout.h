// Kernel of ops::seeded_dropout over a row.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

template <class T>
struct DropoutKernels {
  // y = 0 or x / (1 - rate). column_words: `count` of them, readable 64 bytes further.
  void (*row)(double rate, std::uint32_t row_word, const std::uint32_t* column_words, const T* x, std::int64_t count,
              T* y);
};
HONE_KERNELS(DropoutKernels, dropout_kernels)

}  // namespace hone::ops::cpu
