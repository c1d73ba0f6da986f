// Attention in blocks of rows, by registers: sizes, packing, products and who sees whom. Included by kernel files only.
//
// Scores are kept with a key per row and a query per lane: maxima, sums and factors of queries are then lane by lane.
#pragma once

#include "ops/cpu/products/attention-inl.h"
#include "ops/cpu/products/product-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr std::int64_t kBlock = kAttentionBlock;
inline constexpr int kGroup = 8;  // rows of keys come in multiples of this

template <class T>
struct AttentionTypes {
  using U = Units<T>;
  using W = typename U::Sum;
  using Unit = typename U::Unit;
  static constexpr int kWide = kLanes<W>;
  static constexpr int kLaneVectors = kBlock / kWide;                // registers for a block of queries
  static constexpr std::int64_t kBlockUnits = kBlock / U::kPerUnit;  // units across a block of rows
};

// Sizes that follow from the head size.
template <class T>
struct HeadSizes : AttentionTypes<T> {
  using A = AttentionTypes<T>;
  explicit HeadSizes(std::int64_t head_size)
      : size(head_size),
        depth((size + A::U::kPerUnit - 1) / A::U::kPerUnit),
        stride(round_up(depth, A::kWide)),
        wide(round_up(size, A::kWide > kGroup ? A::kWide : kGroup)) {}
  std::int64_t size;
  std::int64_t depth;   // units along a row
  std::int64_t stride;  // of packed rows, in units
  std::int64_t wide;    // the head size in whole registers and groups of rows
};

// Rows of a head as units along the row: [rows, stride], zero after the row's end and after row `count`.
template <class T>
void pack_rows(HeadRows<const T> from, std::int64_t count, std::int64_t rows, const HeadSizes<T>& sizes,
               typename Units<T>::Unit* to) {
  for (std::int64_t r = 0; r < rows; ++r, to += sizes.stride) {
    if (r < count) Units<T>::pack_row(from.data + r * from.stride, sizes.size, to);
    for (std::int64_t u = r < count ? sizes.depth : 0; u < sizes.stride; ++u) to[u] = 0;
  }
}
// Rows of a head as units across rows: [units, wide].
template <class T>
void pack_across(HeadRows<const T> from, std::int64_t count, std::int64_t units, const HeadSizes<T>& sizes,
                 typename Units<T>::Unit* to) {
  constexpr int kPer = Units<T>::kPerUnit;
  for (std::int64_t u = 0; u < units; ++u, to += sizes.wide) {
    const T* row = from.data + u * kPer * from.stride;
    const bool some = u * kPer < count;
    if (some)
      Units<T>::pack_across(row, (u + 1) * kPer <= count ? row + (kPer - 1) * from.stride : nullptr, sizes.size, to);
    for (std::int64_t i = some ? sizes.size : 0; i < sizes.wide; ++i) to[i] = 0;
  }
}

// A block of at most kBlock rows as [d][unit across rows], zero after row `count`.
template <class T>
void pack_transposed(HeadRows<const T> from, std::int64_t count, const HeadSizes<T>& sizes,
                     typename Units<T>::Unit* room, typename Units<T>::Unit* to) {
  constexpr std::int64_t kUnits = AttentionTypes<T>::kBlockUnits;
  const std::int64_t units = round_up(round_up(count, kGroup) / Units<T>::kPerUnit, AttentionTypes<T>::kWide);
  pack_across<T>(from, count, units, sizes, room);
  transpose(room, sizes.wide, units, sizes.wide, to, kUnits);
}

// A block of queries, and which of its lanes see a key.
template <class T>
struct QueryBlock : AttentionTypes<T> {
  using A = AttentionTypes<T>;
  QueryBlock(const AttentionShape& shape, std::int64_t block)
      : first(block * kBlock),
        count(least(kBlock, shape.queries - first)),
        vectors((count + A::kWide - 1) / A::kWide),
        place(first + shape.keys - shape.queries),
        window(shape.window > 0 ? least(shape.window, shape.keys) : shape.keys),
        ahead(shape.ahead),
        keys(shape.keys),
        first_key(most(0, place - window + 1)),
        end_key(least(keys, place + count + ahead)) {}

  // Registers [first, last) with lanes that see one of keys [key, key + rows).
  HONE_INLINE std::int64_t first_vector(std::int64_t key) const {
    const std::int64_t lane = key - ahead - place;  // the first lane that sees it
    return lane <= 0 ? 0 : least(vectors, lane / A::kWide);
  }
  HONE_INLINE std::int64_t last_vector(std::int64_t key, std::int64_t rows) const {
    const std::int64_t lane = key + rows - 2 + window - place;  // the last lane that sees the last key
    return lane < 0 ? 0 : least(vectors, lane / A::kWide + 1);
  }
  // Whether all lanes of registers [vector, vector + vectors) see all of keys [key, key + rows).
  HONE_INLINE bool all_see(std::int64_t key, std::int64_t rows, std::int64_t vector, std::int64_t count_vectors) const {
    const std::int64_t lane = place + vector * A::kWide;
    return key + rows - 1 <= least(lane + ahead, keys - 1) && key > lane + count_vectors * A::kWide - 1 - window;
  }
  // x where lanes of a register see the key, minus infinity elsewhere.
  HONE_INLINE Vec<typename A::W> seen(Vec<typename A::W> x, std::int64_t key, std::int64_t vector) const {
    using W = typename A::W;
    using I = typename LaneTypes<W>::Int;
    if (key >= keys) return all(-static_cast<W>(INFINITY));
    // How far each lane stands after the key.
    const Ints<W> far = count_up<W>() + static_cast<I>(place + vector * A::kWide - key);
    return ((far >= static_cast<I>(-ahead)) & (far < static_cast<I>(window))) ? x : all(-static_cast<W>(INFINITY));
  }

  std::int64_t first, count;  // of the queries
  std::int64_t vectors;       // registers that hold them
  std::int64_t place;         // the key at which the first query stands
  std::int64_t window, ahead, keys;
  std::int64_t first_key, end_key;  // keys that some query sees
};

// The keys of a block that a block of queries may see, in whole groups of rows.
template <class T>
HONE_INLINE std::int64_t rows_of(const QueryBlock<T>& queries, std::int64_t key) {
  return round_up(least(kBlock, queries.end_key - key), kGroup);
}

// Calls tile(Int<Rows>, Int<Vectors>, row, vector) for tiles that cover what the queries see of the block of keys from
// `key` on.
template <class T, class Tile>
HONE_INLINE void each_seen_tile(const QueryBlock<T>& queries, std::int64_t key, Tile&& tile) {
  const std::int64_t rows = rows_of(queries, key);
  for (std::int64_t group = 0; group < rows; group += kGroup)
    each_tile(kGroup, queries.first_vector(key + group), queries.last_vector(key + group, kGroup),
              [&](auto tile_rows, auto tile_vectors, std::int64_t row, std::int64_t vector)
                  HONE_LAMBDA { tile(tile_rows, tile_vectors, group + row, vector); });
}

// Minus infinity where a query does not see a key.
template <class T, int R, int V>
HONE_INLINE void hide(const QueryBlock<T>& queries, Vec<Wide<T>> (&x)[R][V], std::int64_t key, std::int64_t vector) {
  if (queries.all_see(key, R, vector, V)) return;
  HONE_UNROLL
  for (int r = 0; r < R; ++r) {
    HONE_UNROLL
    for (int v = 0; v < V; ++v) x[r][v] = queries.seen(x[r][v], key + r, vector + v);
  }
}

// A [row][unit] and B [unit][lane] of a product.
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
  each_tile(rows, first, last, [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
    Vec<W> tile[R][V] = {};
    W* at = sums + row * stride + vector * kLanes<W>;
    if (!fresh) load_tile(at, stride, tile);
    multiply<U>(f.a + row * f.a_stride + from, f.a_stride, f.b + from * f.b_stride + vector * kLanes<W>, f.b_stride,
                to - from, tile);
    store_tile(tile, at, stride);
  });
}

// A tile of A B over `depth` units.
template <class U, int R, int V>
HONE_INLINE void product_tile(const Factors<U>& f, std::int64_t depth, std::int64_t row, std::int64_t vector,
                              Vec<typename U::Sum> (&x)[R][V]) {
  HONE_UNROLL
  for (int r = 0; r < R; ++r) {
    HONE_UNROLL
    for (int v = 0; v < V; ++v) x[r][v] = Vec<typename U::Sum>{};
  }
  multiply<U>(f.a + row * f.a_stride, f.a_stride, f.b + vector * kLanes<typename U::Sum>, f.b_stride, depth, x);
}

// accumulate() for A [d][unit across keys] and B [unit across keys][query] of the block of keys from `key` on; keys
// that none of a tile's queries sees are left out.
template <class T>
HONE_INLINE void accumulate_over_keys(const QueryBlock<T>& queries, std::int64_t key, const Factors<Units<T>>& factors,
                                      std::int64_t rows, bool fresh, Wide<T>* sums) {
  constexpr int kWide = AttentionTypes<T>::kWide, kPer = Units<T>::kPerUnit;
  const std::int64_t keys = rows_of(queries, key);
  const bool all = queries.all_see(key, keys, 0, queries.vectors);
  const std::int64_t panel = all ? queries.vectors : 2;
  for (std::int64_t v = 0; v < queries.vectors; v += panel) {
    const std::int64_t end = least(v + panel, queries.vectors), place = queries.place - key;
    const std::int64_t from = most(0, place + v * kWide - queries.window + 1) / kGroup * kGroup;
    const std::int64_t to = least(keys, round_up(place + queries.ahead + end * kWide, kGroup));
    accumulate<Units<T>>(factors, rows, v, end, least(from, to) / kPer, to / kPer, fresh, sums, kBlock);
  }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
