// What the passes of a state space share: what a chunk's tokens are read and written by, and what they write. Included
// by kernel files only.
//
// Letters: t tokens that read, s tokens up to them that write.
#pragma once

#include "ops/cpu/products/chunk_decay-inl.h"
#include "ops/cpu/products/memory-inl.h"
#include "ops/cpu/products/ssd.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

template <class T>
using SsdSizes = ChunkedSizes<T, SsdShape>;

// C and B of a chunk, and their products: the same for all heads.
template <class T>
struct SsdChunk {
  using W = Wide<T>;
  using U = Units<W>;
  SsdChunk(const SsdSizes<T>& sizes, Pieces& pieces) : sizes(sizes) {
    for (W** x : {&c, &b, &b_columns}) *x = pieces.template take<W>(kChunk * sizes.keys);
    products = pieces.template take<W>(kChunk * kChunk);
  }
  void select(std::int64_t chunk) { first = chunk * kChunk, count = sizes.count(chunk), padded = sizes.rows(chunk); }
  void read_b(const SsdRows<T>& rows) {
    pack<T>(rows.b, first, count, padded, sizes.shape.key_size, sizes.keys, b);
    transpose(b, sizes.keys, padded, sizes.keys, b_columns, kChunk);
  }
  void read_c(const SsdRows<T>& rows) {
    pack<T>(rows.c, first, count, padded, sizes.shape.key_size, sizes.keys, c);
    each_tile(padded, 0, padded / kLanes<W>,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (vector * kLanes<W> < row + R)
                  multiply<U>(c + row * sizes.keys, sizes.keys, b_columns + vector * kLanes<W>, kChunk, sizes.keys, x);
                store_tile(x, products + row * kChunk + vector * kLanes<W>, kChunk);
              });
  }

  const SsdSizes<T>& sizes;
  W *c, *b, *b_columns;  // [row][size], [size's place][row]
  W* products;           // c_t b_s, [t][s], for s up to t at least
  std::int64_t first = 0, count = 0, padded = 0;
};

// What one head of a chunk writes: each x by its step.
template <class T>
struct SsdWriting {
  using W = Wide<T>;
  SsdWriting(const SsdSizes<T>& sizes, Pieces& pieces) : sizes(sizes), gates(pieces) {
    for (W** to : {&x, &written}) *to = pieces.template take<W>(kChunk * sizes.values);
  }
  void run(const SsdRows<T>& rows, const SsdChunk<T>& chunk, std::int64_t head) {
    const std::int64_t gate = chunk.first * rows.gate_stride + head;
    gates.read(rows.decay + gate, rows.step + gate, rows.gate_stride, chunk.count, chunk.padded);
    pack<T>({rows.x.data + head * rows.x_head, rows.x.stride}, chunk.first, chunk.count, chunk.padded,
            sizes.shape.value_size, sizes.values, x);
    for (std::int64_t t = 0; t < chunk.padded; ++t) {
      const W *from = x + t * sizes.values, step = gates.step[t];
      W* to = written + t * sizes.values;
      each_vector<W>(sizes.values,
                     [&](std::int64_t i, auto part) { store(to + i, load(from + i, part) * step, part); });
    }
  }
  // state: before the chunk (null: zeros) becomes that behind it; `columns`: room, [size's place][row].
  void take_in(const SsdChunk<T>& chunk, const W* before, W* after, W* columns) const {
    std::memcpy(columns, chunk.b_columns, kChunk * sizes.keys * sizeof(W));
    scale_columns(columns, sizes.keys, chunk.padded, gates.kept);
    take_in_values<W>(sizes.sizes(), columns, written, chunk.padded, gates.decay, before, after);
  }

  const SsdSizes<T>& sizes;
  ChunkDecay<W> gates;
  W *x, *written;  // [row][value's place]
};

}  // namespace hone::ops::cpu::CPU_CAPABILITY
