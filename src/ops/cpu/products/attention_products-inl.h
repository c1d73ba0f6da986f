// The two forms of product in attention: by registers, tile by tile as the caller looks at them, or by AMX, made ahead.
// Included by kernel files only.
#pragma once

#include "ops/cpu/products/tiles-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AMX)
inline constexpr int kGroup = 2 * kTile;                     // rows come in multiples of this
inline constexpr std::int64_t kVectorStep = kGroup / kTile;  // registers of queries too
#else
inline constexpr int kGroup = 8;
inline constexpr std::int64_t kVectorStep = 1;
struct TileRegisters {};  // none are needed
#endif

// A [row][unit] and B [unit][lane] of a product. With AMX, units are there in multiples of kTile, zero if need be.
template <class U>
struct Factors {
  const typename U::Unit* a;
  std::int64_t a_stride;
  const typename U::Unit* b;
  std::int64_t b_stride;
};

// Adds A B over units [from, to) to sums[row][lane] (or, if fresh, puts it there), for registers [first, last) of
// lanes.
template <class U>
HONE_INLINE void accumulate(const Factors<U>& f, std::int64_t rows, std::int64_t first, std::int64_t last,
                            std::int64_t from, std::int64_t to, bool fresh, typename U::Sum* sums,
                            std::int64_t stride) {
  using W = typename U::Sum;
#if defined(CPU_CAPABILITY_AMX)
  for (std::int64_t v = first; v < last; v += kVectorStep)
    for (std::int64_t row = 0; row < rows; row += kGroup)
      multiply_tiles(f.a + row * f.a_stride + from, f.a_stride, f.b + from * f.b_stride + v * kLanes<W>, f.b_stride,
                     to - from, fresh, sums + row * stride + v * kLanes<W>, stride);
#else
  each_tile(rows, first, last, [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
    Vec<W> tile[R][V] = {};
    W* at = sums + row * stride + vector * kLanes<W>;
    if (!fresh) load_tile(at, stride, tile);
    multiply<U>(f.a + row * f.a_stride + from, f.a_stride, f.b + from * f.b_stride + vector * kLanes<W>, f.b_stride,
                to - from, tile);
    store_tile(tile, at, stride);
  });
#endif
}

// A B over `depth` units, given out in tiles: of each group of rows, begin() with the registers of lanes that are
// wanted, then tile() for any of them.
template <class U>
class TiledProduct {
 public:
  using W = typename U::Sum;
#if defined(CPU_CAPABILITY_AMX)
  static constexpr std::int64_t kRoom = kGroup * kAttentionBlock;
  TiledProduct(const Factors<U>& factors, std::int64_t depth, W* room)
      : factors_(factors), depth_((depth + kTile - 1) / kTile * kTile), room_(room) {}
  HONE_INLINE void begin(std::int64_t group, std::int64_t first, std::int64_t last) {
    accumulate<U>({factors_.a + group * factors_.a_stride, factors_.a_stride, factors_.b, factors_.b_stride}, kGroup,
                  first, last, 0, depth_, /*fresh=*/true, room_, kAttentionBlock);
  }
  template <int R, int V>
  HONE_INLINE void tile(std::int64_t row, std::int64_t vector, Vec<W> (&x)[R][V]) const {
    load_tile(room_ + row % kGroup * kAttentionBlock + vector * kLanes<W>, kAttentionBlock, x);
  }
#else
  static constexpr std::int64_t kRoom = 0;
  TiledProduct(const Factors<U>& factors, std::int64_t depth, W* room)
      : factors_(factors), depth_(depth), room_(room) {}
  HONE_INLINE void begin(std::int64_t /*group*/, std::int64_t /*first*/, std::int64_t /*last*/) {}
  template <int R, int V>
  HONE_INLINE void tile(std::int64_t row, std::int64_t vector, Vec<W> (&x)[R][V]) const {
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) x[r][v] = Vec<W>{};
    }
    multiply<U>(factors_.a + row * factors_.a_stride, factors_.a_stride, factors_.b + vector * kLanes<W>,
                factors_.b_stride, depth_, x);
  }
#endif

 private:
  const Factors<U> factors_;
  const std::int64_t depth_;
  [[maybe_unused]] W* const room_;  // kRoom sums
};

}  // namespace hone::ops::cpu::CPU_CAPABILITY
