// What a matrix memory's passes share: sizes, packing, gates, and the step from one chunk to the next. Included by
// kernel files only.
//
// Everything is computed in the type that is summed in: beside the products with weights this is little work.
#pragma once

#include "ops/cpu/products/mlstm.h"
#include "ops/cpu/products/pieces-inl.h"
#include "ops/cpu/products/product-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr std::int64_t kChunk = 64;  // tokens

template <class T>
struct MlstmSizes {
  using W = Wide<T>;
  using U = Units<W>;
  static constexpr int kWide = kLanes<W>;
  static constexpr std::int64_t kWhole = kWide > 8 ? kWide : 8;  // registers and groups of rows
  explicit MlstmSizes(const MlstmShape& s)
      : shape(s),
        keys(round_up(s.key_size, kWhole)),
        values(round_up(s.value_size, kWhole)),
        chunks((s.tokens + kChunk - 1) / kChunk),
        scale(static_cast<W>(1 / std::sqrt(static_cast<double>(s.key_size)))) {}

  std::int64_t count(std::int64_t chunk) const { return least(kChunk, shape.tokens - chunk * kChunk); }
  std::int64_t rows(std::int64_t chunk) const { return round_up(count(chunk), kWhole); }  // zeros behind the last

  const MlstmShape& shape;
  std::int64_t keys, values;  // sizes of a key and a value in whole registers
  std::int64_t chunks;
  W scale;  // of products of queries and keys
};

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
W log_sigmoid(W x) {
  return (x < 0 ? x : W(0)) - std::log1p(std::exp(x < 0 ? x : -x));
}

// Of a chunk's tokens t, with b_t the sum of the logarithms of forget gates up to t: input_t - b_t, which says how much
// a token s before t counts at t, e^(b_t + input_s - b_s), but for b_t; the largest of these numbers so far, with the
// memory's m among them, and e^(number - that): the factors by which t sees s, and the memory, are no larger than 1.
template <class W>
struct ChunkGates {
  explicit ChunkGates(Pieces& pieces) : highest(pieces.take<std::int64_t>(kChunk)) {
    for (W** x : {&level, &top, &sum, &seen, &kept}) *x = pieces.take<W>(kChunk);
  }

  // m: the memory's before the chunk.
  template <class T>
  void read(const MlstmRows<T>& rows, std::int64_t first, std::int64_t count, std::int64_t padded, W m) {
    W total = 0, most_so_far = m;
    std::int64_t at_most = -1;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t at = (first + t) * rows.gate_stride;
      total += log_sigmoid(rows.forget[at]);
      sum[t] = total;
      level[t] = rows.input[at] - total;
      if (level[t] > most_so_far) most_so_far = level[t], at_most = t;
      top[t] = most_so_far, highest[t] = at_most;
    }
    for (std::int64_t t = count; t < padded; ++t) level[t] = kNothing, top[t] = -kNothing, sum[t] = 0;
    for (std::int64_t t = 0; t < padded; t += kLanes<W>) {
      store_lanes(seen + t, exp_of(m - load_lanes<Vec<W>>(top + t)));
      store_lanes(kept + t, exp_of(load_lanes<Vec<W>>(level + t) - most_so_far));
    }
    decay = exp_of(all(m - most_so_far))[0];
    next_m = total + most_so_far;
  }
  W least_divisor(std::int64_t t) const { return std::exp(-(sum[t] + top[t])); }  // e^-m of the token

  static constexpr W kNothing = -1e30f;
  W *level, *top, *sum;
  std::int64_t* highest;    // whose level the top is; -1: the memory's m
  W* seen;                  // by which t sees the memory
  W* kept;                  // by which the memory takes s in
  W decay = 0, next_m = 0;  // by which the memory keeps what it has; its m afterwards
};

// What a reading is divided by: the divisor's size, and no less than e^-m.
template <class W>
struct Division {
  Division(W divisor, W smallest, double eps)
      : by_divisor(std::abs(divisor) > smallest),
        factor(1 / ((by_divisor ? std::abs(divisor) : smallest) + static_cast<W>(eps))) {}
  bool by_divisor;
  W factor;
};

// A head's memory on its way: values [keys][values], keys [keys].
template <class W>
struct Held {
  W *values, *keys;
  bool empty = true;
};

// to = decay * from (nothing of an empty one) + sum over rows of columns[.][row] v[row], for values; `to` may be
// `from`.
template <class T>
void take_in_values(const MlstmSizes<T>& sizes, const Wide<T>* columns, const Wide<T>* v, std::int64_t rows,
                    Wide<T> decay, const Held<Wide<T>>& from, const Held<Wide<T>>& to) {
  using W = Wide<T>;
  using U = Units<W>;
  each_tile(sizes.keys, 0, sizes.values / kLanes<W>,
            [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
              Vec<W> x[R][V] = {};
              const std::int64_t at = row * sizes.values + vector * kLanes<W>;
              if (!from.empty) {
                load_tile(from.values + at, sizes.values, x);
                HONE_UNROLL
                for (int r = 0; r < R; ++r) {
                  HONE_UNROLL
                  for (int i = 0; i < V; ++i) x[r][i] *= decay;
                }
              }
              multiply<U>(columns + row * kChunk, kChunk, v + vector * kLanes<W>, sizes.values, rows, x);
              store_tile(x, to.values + at, sizes.values);
            });
}

// The same of keys, whose rows have 1 for a value. k_columns [keys][kChunk] are those of the keys times what the memory
// takes of them.
template <class T>
void take_in(const MlstmSizes<T>& sizes, const Wide<T>* k_columns, const Wide<T>* v, std::int64_t rows, Wide<T> decay,
             const Held<Wide<T>>& from, Held<Wide<T>>& to) {
  using W = Wide<T>;
  take_in_values<T>(sizes, k_columns, v, rows, decay, from, to);
  for (std::int64_t k = 0; k < sizes.keys; ++k) {
    const W* column = k_columns + k * kChunk;
    const W added = sum_over<W>(rows, [&](std::int64_t i, auto part) { return load(column + i, part); });
    to.keys[k] = (from.empty ? W(0) : decay * from.keys[k]) + added;
  }
  to.empty = false;
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
