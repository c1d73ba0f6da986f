// Dot products of every row of one matrix with every row of another, a tile at a time. Included by kernel files of this
// folder only.
//
// A tile of weight rows runs against a few rows of x with one vector of partial sums per output. Tiles of eight weight
// rows keep enough memory requests under way to read at the machine's full rate, which is what decoding waits for.
#pragma once

#include <algorithm>

#include "ops/cpu/dot/dots-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

constexpr std::int64_t kTilesAhead = 2;  // while a tile serves several rows, the next ones are already on their way

template <class T>
struct RowsByRows {
  const T *x, *weight;  // [rows, in], [outs, in]
  std::int64_t rows, in, outs;
};

// Sums of `kRows` rows of x from `row` on with the kOuts weight rows at `weights`.
template <class L, int kRows, class T = typename L::Element>
void tile(const RowsByRows<T>& p, const T* const* weights, std::int64_t row, float (*sums)[L::kOuts]) {
  constexpr int kOuts = L::kOuts;
  typename L::Sum sum[kRows][kOuts];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) sum[r][o] = L::zero();
  const T* x = p.x + row * p.in;
  const auto step = [&](std::int64_t k, auto&& load) {
    typename L::Value values[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) values[r] = load(x + r * p.in + k);
    if (row == 0) {
#pragma GCC unroll 8
      for (int o = 0; o < kOuts; ++o) __builtin_prefetch(weights[o] + k + kTilesAhead * kOuts * p.in);
    }
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) {
      const typename L::Value weight = load(weights[o] + k);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][o] = L::add_product(sum[r][o], values[r], weight);
    }
  };
  std::int64_t k = 0;
  for (; k + L::kStep <= p.in; k += L::kStep) step(k, [](const T* from) { return L::load(from); });
  if (k < p.in) step(k, [&](const T* from) { return L::load_part(from, p.in - k); });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) L::totals(sum[r], sums[r]);
}

// Calls put(row, out, sums, count): sums of a row of x with `count` weight rows from `out` on. A sum's bits do not depend
// on what else is computed.
template <class L, class T, class Put>
void each_sum(const RowsByRows<T>& p, Put&& put) {
  const auto rows_of_tile = [&]<int kRows>(std::integral_constant<int, kRows>, const T* const* weights,
                                           std::int64_t row, std::int64_t out, std::int64_t count) {
    float sums[kRows][L::kOuts];
    tile<L, kRows>(p, weights, row, sums);
    for (int r = 0; r < kRows; ++r) put(row + r, out, sums[r], count);
  };
  for (std::int64_t out = 0; out < p.outs; out += L::kOuts) {
    const std::int64_t count = std::min<std::int64_t>(L::kOuts, p.outs - out);
    const T* weights[L::kOuts];  // beyond the last row: that row again, and its sums are not handed out
    for (std::int64_t o = 0; o < L::kOuts; ++o) weights[o] = p.weight + (out + std::min(o, count - 1)) * p.in;
    std::int64_t row = 0;
    for (; row + L::kRows <= p.rows; row += L::kRows)
      rows_of_tile(std::integral_constant<int, L::kRows>(), weights, row, out, count);
    if (p.rows - row == 2)
      rows_of_tile(std::integral_constant<int, 2>(), weights, row, out, count);
    else if (p.rows - row == 1)
      rows_of_tile(std::integral_constant<int, 1>(), weights, row, out, count);
  }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
