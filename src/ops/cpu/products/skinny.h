// Kernel of products with few rows, as in decoding: every weight is read from memory once, for all rows.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

struct QuantizedRows;  // quantized_rows.h

// y[r, o] = x[r] . weight[o] + bias[o], for `rows` rows of `in` elements and `outs` rows of the weight.
template <class T>
struct SkinnyProduct {
  const T *x, *weight, *bias;  // [rows, in], [outs, in], [outs] or null
  std::int64_t rows, in, outs;
  T* y;
  std::int64_t stride;           // from one row of y to the next
  const void* packed = nullptr;  // x as `pack` made it; null: as it lies
  // A weight in few bits instead: y[r, o] is of its row first + o.
  const QuantizedRows* quantized = nullptr;
  std::int64_t first = 0;
  // A weight by inputs instead, [in, …], for turned_rows.h: from one input to the next. 0: as above.
  std::int64_t turned = 0;
};

// Most rows whose sums AMX leaves to vectors, which are faster there.
inline constexpr std::int64_t kRowsByVectors = 4;

template <class T>
struct SkinnyKernels {
  // REQUIRES: at most 16 rows. Each output is one sum in a fixed order: its bits depend neither on the other rows nor
  // on where `outs` was cut; with AMX, on whether there are more than kRowsByVectors rows.
  void (*multiply)(const SkinnyProduct<T>& product);
  // For several products with one x: bytes of room for it, at a multiple of 64, and packing it. 0, or null: it is
  // multiplied as it lies.
  std::int64_t (*packed_bytes)(std::int64_t rows, std::int64_t in) = nullptr;
  void (*pack)(const SkinnyProduct<T>& product, void* to) = nullptr;
};
HONE_TILE_KERNELS(SkinnyKernels, skinny_kernels)

}  // namespace hone::ops::cpu
