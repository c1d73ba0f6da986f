// Kernels of bf16 products by AMX: packing into tiles, and rows of C against a packed block of B.
#pragma once

#include "ops/cpu/products/matmul.h"
#include "ops/cpu/products/tile_steps.h"

namespace hone::ops::cpu {

// C[rows, cols] from A[rows, depth] and panels of B.
template <class T>
struct TileRows {
  const T* a = nullptr;  // A(i, k) = a[i * i_stride + k * k_stride]; one of the strides is 1
  std::int64_t i_stride = 0, k_stride = 0;
  std::int64_t rows = 0, cols = 0, depth = 0;
  const char* panels = nullptr;  // of pack_b, tile_steps(depth) * kTileStepBytes apart
  void* c = nullptr;
  std::int64_t c_stride = 0;  // elements
  Store store = Store::narrow;
  const float* more = nullptr;  // narrow: added before it is rounded; whole panels of columns; null: nothing
  std::int64_t more_stride = 0;
  char* room = nullptr;        // tile_room(depth) bytes, at a multiple of 64
  const char* soon = nullptr;  // `soon_bytes` that are asked for meanwhile: the next panels
  std::int64_t soon_bytes = 0;
  const T* next_a = nullptr;  // where A of the same strides begins that is multiplied next: asked for meanwhile
};
constexpr std::int64_t tile_room(std::int64_t depth) { return (2 * tile_steps(depth) + 4) * kTileStepBytes; }

// Sums run over depth in its order, whatever the number of rows: a row's result does not depend on its neighbours.
template <class T>
struct TileProductKernels {
  void (*begin)() = nullptr;  // before this thread multiplies; null: there are no tiles
  void (*end)() = nullptr;    // and after
  // B's `cols` columns as panels. B(k, n) = b[k * k_stride + n * n_stride]; one of the strides is 1.
  void (*pack_b)(const T* b, std::int64_t k_stride, std::int64_t n_stride, std::int64_t depth, std::int64_t cols,
                 char* panels) = nullptr;
  // One after another, in one room; what one leaves, the next ones may use.
  void (*multiply)(const TileRows<T>* tasks, std::int64_t count) = nullptr;
};
HONE_TILE_KERNELS(TileProductKernels, tile_product_kernels)

}  // namespace hone::ops::cpu
