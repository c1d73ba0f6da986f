// Products of packed blocks: C[row][lane] = sum over u of A[row][u] B[u][lane], where A's unit goes to all lanes.
// Included by kernel files only.
//
// A unit is one number in the type that is summed in, or a pair of bf16 for AVX-512's dot product of pairs. It is as
// wide as a lane of the sum, so that one text packs, transposes and multiplies both.
#pragma once

#include <cstring>

#include "ops/cpu/products/lanes-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

// The units that numbers of type T are multiplied as: T itself, or, for bf16 without a dot product of pairs, float.
template <class T>
struct Units {
  using Sum = Wide<T>;
  using Unit = Sum;
  using UnitVec = Vec<Sum>;
  static constexpr int kPerUnit = 1;

  static HONE_INLINE Vec<Sum> add_product(Vec<Sum> sum, const Unit* a, UnitVec b) { return sum + *a * b; }
  // A row as units along the row.
  static HONE_INLINE void pack_row(const T* row, std::int64_t size, Unit* to) {
    each_vector<Sum>(size, [&](std::int64_t i, auto part) { store(to + i, load(row + i, part), part); });
  }
  // kPerUnit rows as units across them.
  static HONE_INLINE void pack_across(const T* row, const T* /*next*/, std::int64_t size, Unit* to) {
    pack_row(row, size, to);
  }
  // The same two for sums in registers.
  template <int Rows, int Vectors>
  static HONE_INLINE void store_rows(const Vec<Sum> (&x)[Rows][Vectors], Unit* to, std::int64_t stride) {
    HONE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      HONE_UNROLL
      for (int v = 0; v < Vectors; ++v) store_lanes(to + r * stride + v * kLanes<Sum>, x[r][v]);
    }
  }
  template <int Rows, int Vectors>
  static HONE_INLINE void store_across(const Vec<Sum> (&x)[Rows][Vectors], Unit* to, std::int64_t stride) {
    store_rows(x, to, stride);
  }
};

#if defined(CPU_CAPABILITY_AVX512BF16)
template <>
struct Units<bf16> {
  using Sum = float;
  using Unit = std::uint32_t;
  typedef Unit UnitVec __attribute__((vector_size(kRegisterBytes)));
  static constexpr int kPerUnit = 2;

  static HONE_INLINE Vec<float> add_product(Vec<float> sum, const Unit* a, UnitVec b) {
    return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(static_cast<int>(*a)), (__m512bh)b);
  }
  static HONE_INLINE void pack_row(const bf16* row, std::int64_t size, Unit* to) {
    std::memcpy(to, row, size * sizeof(bf16));
    if (size % 2) to[size / 2] = row[size - 1].x;
  }
  static HONE_INLINE void pack_across(const bf16* row, const bf16* next, std::int64_t size, Unit* to) {
    if (next)
      for (std::int64_t i = 0; i < size; ++i) to[i] = row[i].x | static_cast<Unit>(next[i].x) << 16;
    else
      for (std::int64_t i = 0; i < size; ++i) to[i] = row[i].x;
  }
  template <int Rows, int Vectors>
  static HONE_INLINE void store_rows(const Vec<float> (&x)[Rows][Vectors], Unit* to, std::int64_t stride) {
    HONE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      HONE_UNROLL
      for (int v = 0; v + 1 < Vectors; v += 2)
        store_lanes(to + r * stride + v * 8, _mm512_cvtne2ps_pbh((__m512)x[r][v + 1], (__m512)x[r][v]));
      if constexpr (Vectors % 2)
        store_lanes(to + r * stride + (Vectors - 1) * 8, _mm512_cvtneps_pbh((__m512)x[r][Vectors - 1]));
    }
  }
  template <int Rows, int Vectors>
  static HONE_INLINE void store_across(const Vec<float> (&x)[Rows][Vectors], Unit* to, std::int64_t stride) {
    static_assert(Rows % 2 == 0);
    const __m512i order = (__m512i)(Ints<float>)(count_up<float>() * 0x00010001 + 0x00100000);  // 0 16 1 17 2 18 …
    HONE_UNROLL
    for (int r = 0; r < Rows; r += 2) {
      HONE_UNROLL
      for (int v = 0; v < Vectors; ++v)
        store_lanes(
            to + r / 2 * stride + v * 16,
            _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)x[r + 1][v], (__m512)x[r][v])));
    }
  }
};
#endif

// A tile of C is Rows x Vectors registers: as many sums as hide the latency of a product, few enough to stay registers.
inline constexpr int kPanel = kRegisters == 32 ? 4 : 3;  // the widest tile
template <int Vectors>
inline constexpr int kTileRows = Vectors >= (kRegisters == 32 ? 3 : 2) ? 4 : 8;

template <int N>
using Int = std::integral_constant<int, N>;

// Calls tile(Int<Rows>, Int<Vectors>, row, vector) for the tiles that cover rows [0, rows) and vectors [first, last).
template <int Vectors, class Tile>
HONE_INLINE void each_tile_of_panel(std::int64_t rows, std::int64_t vector, Tile&& tile) {
  constexpr int kRows = kTileRows<Vectors>;
  for (std::int64_t row = 0; row < rows; row += kRows) tile(Int<kRows>(), Int<Vectors>(), row, vector);
}
template <class Tile>
HONE_INLINE void each_tile(std::int64_t rows, std::int64_t first, std::int64_t last, Tile&& tile) {
  while (first < last) {
    // One more than a panel is split evenly: a tile of one vector is slow.
    const std::int64_t left = last - first, width = left == kPanel + 1 ? (left + 1) / 2 : left < kPanel ? left : kPanel;
    if constexpr (kPanel == 4)
      if (width == 4) each_tile_of_panel<4>(rows, first, tile);
    if (width == 3) each_tile_of_panel<3>(rows, first, tile);
    if (width == 2) each_tile_of_panel<2>(rows, first, tile);
    if (width == 1) each_tile_of_panel<1>(rows, first, tile);
    first += width;
  }
}

// sums += A[Rows][depth] B[depth][Vectors].
template <class U, int Rows, int Vectors>
HONE_INLINE void multiply(const typename U::Unit* a, std::int64_t a_stride, const typename U::Unit* b,
                          std::int64_t b_stride, std::int64_t depth, Vec<typename U::Sum> (&sums)[Rows][Vectors]) {
  using V = typename U::UnitVec;
  for (std::int64_t u = 0; u < depth; ++u) {
    V lanes[Vectors];
    HONE_UNROLL
    for (int v = 0; v < Vectors; ++v) lanes[v] = load_lanes<V>(b + u * b_stride + v * kLanes<typename U::Sum>);
    HONE_UNROLL
    for (int r = 0; r < Rows; ++r) {
      HONE_UNROLL
      for (int v = 0; v < Vectors; ++v) sums[r][v] = U::add_product(sums[r][v], a + r * a_stride + u, lanes[v]);
    }
  }
}

template <class W, int Rows, int Vectors>
HONE_INLINE void load_tile(const W* from, std::int64_t stride, Vec<W> (&x)[Rows][Vectors]) {
  HONE_UNROLL
  for (int r = 0; r < Rows; ++r) {
    HONE_UNROLL
    for (int v = 0; v < Vectors; ++v) x[r][v] = load_lanes<Vec<W>>(from + r * stride + v * kLanes<W>);
  }
}
template <class W, int Rows, int Vectors>
HONE_INLINE void store_tile(const Vec<W> (&x)[Rows][Vectors], W* to, std::int64_t stride) {
  HONE_UNROLL
  for (int r = 0; r < Rows; ++r) {
    HONE_UNROLL
    for (int v = 0; v < Vectors; ++v) store_lanes(to + r * stride + v * kLanes<W>, x[r][v]);
  }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
