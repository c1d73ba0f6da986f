// What mLSTM's passes share: sizes, gates, and the step from one chunk to the next. Included by kernel files only.
#pragma once

#include "ops/cpu/products/memory-inl.h"
#include "ops/cpu/products/mlstm.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

template <class T>
using MlstmSizes = ChunkedSizes<T, MlstmShape>;

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

// take_in_values(), and the same of keys, whose rows have 1 for a value. k_columns [keys][kChunk] are those of the keys
// times what the memory takes of them.
template <class T>
void take_in(const MlstmSizes<T>& sizes, const Wide<T>* k_columns, const Wide<T>* v, std::int64_t rows, Wide<T> decay,
             const Held<Wide<T>>& from, Held<Wide<T>>& to) {
  using W = Wide<T>;
  take_in_values<W>(sizes.sizes(), k_columns, v, rows, decay, from.empty ? nullptr : from.values, to.values);
  for (std::int64_t k = 0; k < sizes.keys; ++k) {
    const W* column = k_columns + k * kChunk;
    const W added = sum_over<W>(rows, [&](std::int64_t i, auto part) { return load(column + i, part); });
    to.keys[k] = (from.empty ? W(0) : decay * from.keys[k]) + added;
  }
  to.empty = false;
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
