// Kernels of ops::matmul: packing, and the product of a few rows with a packed panel of columns.
//
// Letters: A [rows, depth] times B [depth, cols]. A tile is what one kernel call makes: at most tile_rows x tile_cols.
// bf16 is multiplied in pairs where the instruction set has a product of them, and else in fp32.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// What becomes of a tile's sums.
enum class Store {
  narrow,    // written in the type of the factors
  wide,      // written in fp32
  wide_add,  // added to what is there, in fp32
};

template <class T>
struct Tile {
  const T* a = nullptr;       // [rows, depth], depth even (bf16): a row is contiguous
  std::int64_t a_stride = 0;  // 0: a panel of pack_a_across
  const T* panel = nullptr;   // of pack_b
  std::int64_t rows = 0, cols = 0, depth = 0;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  Store store = Store::narrow;
};

// Sums run over depth in its order, whatever the number of rows: a row's result does not depend on its neighbours.
template <class T>
struct MatmulKernels {
  int tile_rows = 0, tile_cols = 0;  // 0: the type is not multiplied as it is; of what follows it has the last two
  // B's columns as panels of depth_room(depth) * tile_cols values, one behind another, zero where there is none.
  // B(k, n) = b[k * k_stride + n * n_stride]; one of the strides is 1.
  void (*pack_b)(const T* b, std::int64_t k_stride, std::int64_t n_stride, std::int64_t depth, std::int64_t cols,
                 T* panel) = nullptr;
  // A's block as rows of depth_room(depth) values; of A(i, k) = a[i * i_stride + k].
  void (*pack_a)(const T* a, std::int64_t i_stride, std::int64_t rows, std::int64_t depth, T* to) = nullptr;
  // As panels of tile_rows rows, depth_room(depth) * tile_rows values each, where rows lie side by side (the last
  // panel's missing ones are of no use), in pairs of depth for bf16; of A(i, k) = a[i + k * k_stride].
  void (*pack_a_across)(const T* a, std::int64_t k_stride, std::int64_t rows, std::int64_t depth, T* to) = nullptr;
  void (*multiply)(const Tile<T>& tile) = nullptr;
  void (*narrow)(const float* from, std::int64_t count, T* to) = nullptr;  // fp32 sums in the type of the factors
  void (*widen)(const T* from, std::int64_t count, float* to) = nullptr;   // factors in the type of the sums
};
HONE_DOT_KERNELS(MatmulKernels, matmul_kernels)

// bf16 is multiplied in pairs.
template <class T>
constexpr std::int64_t depth_room(std::int64_t depth) {
  return std::is_same_v<T, bf16> ? (depth + 1) / 2 * 2 : depth;
}

}  // namespace hone::ops::cpu
