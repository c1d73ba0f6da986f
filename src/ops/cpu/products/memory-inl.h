// What memories share that go from one chunk of a document's tokens to the next: packing, triangles, and how a memory
// takes a chunk in. Included by kernel files only.
//
// Everything is computed in the type that is summed in: beside the products with weights this is little work.
#pragma once

#include "ops/cpu/products/head_rows.h"
#include "ops/cpu/products/pieces-inl.h"
#include "ops/cpu/products/product-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr std::int64_t kChunk = 64;  // tokens

// In whole registers and groups of rows.
template <class W>
HONE_INLINE std::int64_t whole(std::int64_t size) {
  return round_up(size, kLanes<W> > 8 ? kLanes<W> : 8);
}

// Rows [first, first + count) of a head to [rows][wide], with zeros behind each and behind the last.
template <class T>
void pack(HeadRows<const T> from, std::int64_t first, std::int64_t count, std::int64_t rows, std::int64_t size,
          std::int64_t wide, Wide<T>* to) {
  using W = Wide<T>;
  for (std::int64_t r = 0; r < rows; ++r, to += wide) {
    const T* row = from.data + (first + r) * from.stride;
    if (r < count) each_vector<W>(size, [&](std::int64_t i, auto part) { store(to + i, load(row + i, part), part); });
    for (std::int64_t i = r < count ? size : 0; i < wide; ++i) to[i] = 0;
  }
}

template <class W>
HONE_INLINE W dot(const W* a, const W* b, std::int64_t size) {
  return sum_over<W>(size, [&](std::int64_t i, auto part) { return load(a + i, part) * load(b + i, part); });
}

struct MemorySizes {
  std::int64_t keys = 0, values = 0;  // whole()
};

// Of a document that is gone through by chunks; Shape has tokens, key_size and value_size.
template <class T, class Shape>
struct ChunkedSizes {
  using W = Wide<T>;
  explicit ChunkedSizes(const Shape& s)
      : shape(s),
        keys(whole<W>(s.key_size)),
        values(whole<W>(s.value_size)),
        chunks((s.tokens + kChunk - 1) / kChunk),
        scale(static_cast<W>(1 / std::sqrt(static_cast<double>(s.key_size)))) {}

  std::int64_t count(std::int64_t chunk) const { return least(kChunk, shape.tokens - chunk * kChunk); }
  std::int64_t rows(std::int64_t chunk) const { return whole<W>(count(chunk)); }  // zeros behind the last
  std::int64_t memory() const { return keys * values; }
  MemorySizes sizes() const { return {keys, values}; }

  const Shape& shape;
  std::int64_t keys, values;  // sizes of a key and a value in whole registers
  std::int64_t chunks;
  W scale;  // of queries, or of their products with keys
};

// A memory [keys][values]: to = decay * from (null: nothing) + sum over rows of columns[.][row] v[row]; `to` may be
// `from`.
template <class W>
void take_in_values(MemorySizes sizes, const W* columns, const W* v, std::int64_t rows, W decay, const W* from, W* to) {
  using U = Units<W>;
  each_tile(sizes.keys, 0, sizes.values / kLanes<W>,
            [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
              Vec<W> x[R][V] = {};
              const std::int64_t at = row * sizes.values + vector * kLanes<W>;
              if (from) {
                load_tile(from + at, sizes.values, x);
                HONE_UNROLL
                for (int r = 0; r < R; ++r) {
                  HONE_UNROLL
                  for (int i = 0; i < V; ++i) x[r][i] *= decay;
                }
              }
              multiply<U>(columns + row * kChunk, kChunk, v + vector * kLanes<W>, sizes.values, rows, x);
              store_tile(x, to + at, sizes.values);
            });
}

// columns [size][kChunk] times a factor per row of the chunk.
template <class W>
void scale_columns(W* columns, std::int64_t size, std::int64_t rows, const W* factors) {
  for (std::int64_t k = 0; k < size; ++k)
    for (std::int64_t t = 0; t < rows; t += kLanes<W>)
      store_lanes(columns + k * kChunk + t,
                  load_lanes<Vec<W>>(columns + k * kChunk + t) * load_lanes<Vec<W>>(factors + t));
}

// x where lanes from `lane` on are rows at or behind `row`, 0 elsewhere.
template <class W>
HONE_INLINE Vec<W> from_row(Vec<W> x, std::int64_t row, std::int64_t lane) {
  using I = typename LaneTypes<W>::Int;
  return count_up<W>() + static_cast<I>(lane) >= static_cast<I>(row) ? x : Vec<W>{};
}
template <class W>
HONE_INLINE Vec<W> up_to_row(Vec<W> x, std::int64_t row, std::int64_t lane) {
  using I = typename LaneTypes<W>::Int;
  return count_up<W>() + static_cast<I>(lane) <= static_cast<I>(row) ? x : Vec<W>{};
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
