// Dot products of every row of one matrix with every row of another, a tile at a time. Included by kernel files of this
// folder only.
//
// Weights are read in the order in which they lie, some kilobytes ahead of the sums: memory is fastest when each thread
// follows one line of addresses, which is what decoding waits for.
#pragma once

#include <algorithm>

#include "ops/cpu/products/dots-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

constexpr std::int64_t kBytesAhead = 8192;

template <class T>
struct RowsByRows {
  const T *x, *weight;  // [rows, in], [outs, in]
  std::int64_t rows, in, outs;
};

// Sums of kRows rows at `x` with kOuts weight rows, side by side in registers; a row's sums go L::kOuts apart.
template <class L, int kRows, int kOuts, class T = typename L::Element>
void band(const T* x, const T* const* weights, std::int64_t in, typename L::Sum* sums) {
  typename L::Sum sum[kRows][kOuts];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) sum[r][o] = L::zero();
  const auto step = [&](std::int64_t k, auto&& load) {
    typename L::Value values[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) values[r] = load(x + r * in + k);
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) {
      __builtin_prefetch(reinterpret_cast<const char*>(weights[o] + k) + kBytesAhead);
      const typename L::Value weight = load(weights[o] + k);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][o] = L::add_product(sum[r][o], values[r], weight);
    }
  };
  std::int64_t k = 0;
#pragma GCC unroll 2
  for (; k + L::kStep <= in; k += L::kStep) step(k, [](const T* from) { return L::load(from); });
  if (k < in) step(k, [&](const T* from) { return L::load_part(from, in - k); });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) sums[r * L::kOuts + o] = sum[r][o];
}

// Sums of `kRows` rows of x from `row` on with the L::kOuts weight rows at `weights`. One row needs no two weight rows
// at a time: the processor itself goes on to the next sum while one is being added up.
template <class L, int kRows, class T = typename L::Element>
void tile(const RowsByRows<T>& p, const T* const* weights, std::int64_t row, float (*totals)[L::kOuts]) {
  constexpr int kBand = kRows == 1 ? 1 : L::kBand;
  typename L::Sum sums[kRows * L::kOuts];
  for (int o = 0; o < L::kOuts; o += kBand) band<L, kRows, kBand>(p.x + row * p.in, weights + o, p.in, sums + o);
  for (int r = 0; r < kRows; ++r) L::totals(sums + r * L::kOuts, totals[r]);
}

// Calls put(row, out, sums, count): sums of a row of x with `count` weight rows from `out` on. A sum's bits do not
// depend on what else is computed.
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
    const auto rest = [&]<int kRows>(std::integral_constant<int, kRows> count_of_rows) {
      if (p.rows - row == kRows) rows_of_tile(count_of_rows, weights, row, out, count), row += kRows;
    };
    if constexpr (L::kRows > 3) rest(std::integral_constant<int, 3>());
    rest(std::integral_constant<int, 2>());
    rest(std::integral_constant<int, 1>());
  }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
