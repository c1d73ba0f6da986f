// What the passes of a memory that is corrected share: unit vectors, and what a chunk's tokens write. Included
// by kernel files only.
//
// Letters: t tokens that read or write, s tokens before them.
#pragma once

#include "ops/cpu/products/chunk_decay-inl.h"
#include "ops/cpu/products/gated_delta.h"
#include "ops/cpu/products/memory-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr double kSmallestSquare = 1e-6;  // is added to a vector's squares
inline constexpr int kSolved = 8;                // rows of a triangle that are solved at a time

template <class T>
using DeltaSizes = ChunkedSizes<T, DeltaShape>;

// Packed rows times `scale`, over their lengths; factors: what each was multiplied with, unless null.
template <class W>
void make_units(W* rows, std::int64_t count, std::int64_t wide, W scale, W* factors) {
  for (std::int64_t t = 0; t < count; ++t, rows += wide) {
    const W factor = scale / std::sqrt(dot(rows, rows, wide) + static_cast<W>(kSmallestSquare));
    each_vector<W>(wide, [&](std::int64_t i, auto part) { store(rows + i, load(rows + i, part) * factor, part); });
    if (factors) factors[t] = factor;
  }
}

// x = (1 - L)^-1 x for `lower` = L [t][s], which counts below its diagonal; in place.
template <class W>
void solve(const W* lower, std::int64_t padded, std::int64_t wide, W* x) {
  for (std::int64_t first = 0; first < padded; first += kSolved) {
    each_tile(kSolved, 0, wide / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                W* const at = x + (first + row) * wide + vector * kLanes<W>;
                Vec<W> sums[R][V];
                load_tile(at, wide, sums);
                multiply<Units<W>>(lower + (first + row) * kChunk, kChunk, x + vector * kLanes<W>, wide, first, sums);
                store_tile(sums, at, wide);
              });
    for (std::int64_t i = 0; i < wide; i += kLanes<W>) {
      Vec<W> own[kSolved];
      HONE_UNROLL
      for (int t = 0; t < kSolved; ++t) {
        own[t] = load_lanes<Vec<W>>(x + (first + t) * wide + i);
        for (int s = 0; s < t; ++s) own[t] += own[s] * lower[(first + t) * kChunk + first + s];
        store_lanes(x + (first + t) * wide + i, own[t]);
      }
    }
  }
}

// x = (1 - L)^-T x for `upper` = L^T [s][t], which counts above its diagonal; in place.
template <class W>
void solve_turned(const W* upper, std::int64_t padded, std::int64_t wide, W* x) {
  for (std::int64_t first = padded - kSolved; first >= 0; first -= kSolved) {
    const std::int64_t later = first + kSolved;
    each_tile(kSolved, 0, wide / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                W* const at = x + (first + row) * wide + vector * kLanes<W>;
                Vec<W> sums[R][V];
                load_tile(at, wide, sums);
                multiply<Units<W>>(upper + (first + row) * kChunk + later, kChunk,
                                   x + later * wide + vector * kLanes<W>, wide, padded - later, sums);
                store_tile(sums, at, wide);
              });
    for (std::int64_t i = 0; i < wide; i += kLanes<W>) {
      Vec<W> own[kSolved];
      HONE_UNROLL
      for (int s = kSolved - 1; s >= 0; --s) {
        own[s] = load_lanes<Vec<W>>(x + (first + s) * wide + i);
        for (int t = s + 1; t < kSolved; ++t) own[s] += own[t] * upper[(first + s) * kChunk + first + t];
        store_lanes(x + (first + s) * wide + i, own[s]);
      }
    }
  }
}

// Queries and keys of a chunk, as units, and their products.
template <class T>
struct DeltaChunk {
  using W = Wide<T>;
  using U = Units<W>;
  DeltaChunk(const DeltaSizes<T>& sizes, Pieces& pieces) : sizes(sizes) {
    for (W** x : {&q, &k, &k_columns}) *x = pieces.template take<W>(kChunk * sizes.keys);
    for (W** x : {&keys_keys, &queries_keys}) *x = pieces.template take<W>(kChunk * kChunk);
    for (W** x : {&q_factors, &k_factors}) *x = pieces.template take<W>(kChunk);
  }
  void select(std::int64_t chunk) { first = chunk * kChunk, count = sizes.count(chunk), padded = sizes.rows(chunk); }
  void read_keys(const DeltaRows<T>& rows) {
    pack<T>(rows.k, first, count, padded, sizes.shape.key_size, sizes.keys, k);
    make_units(k, count, sizes.keys, W(1), k_factors);
    transpose(k, sizes.keys, padded, sizes.keys, k_columns, kChunk);
    multiply_with_keys(k, keys_keys);
  }
  void read_queries(const DeltaRows<T>& rows) {
    pack<T>(rows.q, first, count, padded, sizes.shape.key_size, sizes.keys, q);
    make_units(q, count, sizes.keys, sizes.scale, q_factors);
    multiply_with_keys(q, queries_keys);
  }

  const DeltaSizes<T>& sizes;
  W *q, *k, *k_columns;         // [row][size], [key's place][row]
  W *keys_keys, *queries_keys;  // [t][s], for s up to t at least
  W *q_factors, *k_factors;     // what made them units
  std::int64_t first = 0, count = 0, padded = 0;

 private:
  void multiply_with_keys(const W* of, W* to) const {
    each_tile(padded, 0, padded / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (vector * kLanes<W> < row + R)
                  multiply<U>(of + row * sizes.keys, sizes.keys, k_columns + vector * kLanes<W>, kChunk, sizes.keys, x);
                store_tile(x, to + row * kChunk + vector * kLanes<W>, kChunk);
              });
  }
};

// What one head of values of a chunk writes: the solution `written` of
//   written_t = step_t (v_t - seen_t memory^T k_t - sum over s < t of (k_t k_s) e^(sum_t - sum_s) written_s).
template <class T>
struct DeltaWriting {
  using W = Wide<T>;
  using U = Units<W>;
  DeltaWriting(const DeltaSizes<T>& sizes, Pieces& pieces) : sizes(sizes), gates(pieces) {
    lower = pieces.template take<W>(kChunk * kChunk);
    for (W** x : {&written, &above}) *x = pieces.template take<W>(kChunk * sizes.values);
  }
  // memory: before the chunk; null: zeros.
  void run(const DeltaRows<T>& rows, const DeltaChunk<T>& chunk, std::int64_t head, const W* memory) {
    const std::int64_t gate = chunk.first * rows.gate_stride + head;
    gates.read(rows.decay + gate, rows.step + gate, rows.gate_stride, chunk.count, chunk.padded);
    pack<T>({rows.v.data + head * rows.value_head, rows.v.stride}, chunk.first, chunk.count, chunk.padded,
            sizes.shape.value_size, sizes.values, above);
    each_tile(chunk.padded, 0, sizes.values / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                const std::int64_t at = row * sizes.values + vector * kLanes<W>;
                Vec<W> x[R][V] = {};
                if (memory)
                  multiply<U>(chunk.k + row * sizes.keys, sizes.keys, memory + vector * kLanes<W>, sizes.values,
                              sizes.keys, x);
                HONE_UNROLL
                for (int r = 0; r < R; ++r) {
                  HONE_UNROLL
                  for (int i = 0; i < V; ++i) {
                    W* const value = above + at + r * sizes.values + i * kLanes<W>;
                    const Vec<W> left = load_lanes<Vec<W>>(value) - x[r][i] * gates.seen[row + r];
                    store_lanes(value, left);
                    x[r][i] = left * gates.step[row + r];
                  }
                }
                store_tile(x, written + at, sizes.values);
              });
    each_share(gates, chunk.keys_keys, chunk.padded, lower,
               [&](std::int64_t t, Vec<W> products, Vec<W> share) { return -gates.step[t] * products * share; });
    solve(lower, chunk.padded, sizes.values, written);
  }

  const DeltaSizes<T>& sizes;
  ChunkDecay<W> gates;
  W* lower;    // [t][s]; what stands on its diagonal does not count
  W* written;  // [row][value's place]
  W* above;    // v_t - seen_t memory^T k_t
};

}  // namespace hone::ops::cpu::CPU_CAPABILITY
