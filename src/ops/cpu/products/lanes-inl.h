// What kernels of dot products need beside the vectors of vec-inl.h: powers and logarithms of 2, transposed blocks.
// Included by kernel files only.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr int kRegisters = kRegisterBytes == 64 ? 32 : 16;

template <class W>
HONE_INLINE bool any(Ints<W> truths) {
  typename LaneTypes<W>::Int some = 0;
  for (int i = 0; i < kLanes<W>; ++i) some |= truths[i];
  return some != 0;
}

// 2^x. Degree: of the polynomial for 2^f, |f| <= 1/2: 4 has a relative error of 3e-6, 6 one unit in the last place.
// 0 for x <= -127, wrong for x >= 128, NaN for NaN.
template <int Degree>
HONE_INLINE Vec<float> exp2_of(Vec<float> x) {
  constexpr float kFour[] = {0.009582853f, 0.05590643f, 0.24024099f, 0.6931241f};
  constexpr float kSix[] = {0.00015353362f, 0.0013398875f, 0.009618437f, 0.055503324f, 0.24022648f, 0.6931472f};
  static_assert(Degree == 4 || Degree == 6);
  x = larger(all(-127.0f), x);
  // The addition of 1.5 * 2^23 rounds x to n and leaves n in the low bits, which then go to the exponent.
  const Vec<float> shifted = x + 12582912.0f, f = x - (shifted - 12582912.0f);
  Vec<float> p = all(Degree == 4 ? kFour[0] : kSix[0]);
  HONE_UNROLL
  for (int i = 1; i < Degree; ++i) p = p * f + (Degree == 4 ? kFour[i] : kSix[i]);
  p = p * f + 1.0f;
  return (Vec<float>)((Words)p + ((Words)shifted << 23));
}
template <int Degree>
HONE_INLINE Vec<double> exp2_of(Vec<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp2(x[i]);
  return x;
}

// log2(x) of normal x > 0 to about one unit in the last place; NaN for NaN.
HONE_INLINE Vec<float> log2_of(Vec<float> x) {
  const Ints<float> whole = ((Ints<float>)x - 0x3f3504f3) >> 23;  // x = 2^whole m, m from sqrt(1/2) to sqrt(2)
  const Vec<float> m = (Vec<float>)((Ints<float>)x - (whole << 23)), s = (m - 1.0f) / (m + 1.0f), z = s * s;
  const Vec<float> p = (((z * (1.0f / 9) + 1.0f / 7) * z + 1.0f / 5) * z + 1.0f / 3) * z + 1.0f;
  const Vec<float> y = s * p * 2.88539008f + __builtin_convertvector(whole, Vec<float>);
  return x == x ? y : x;
}
HONE_INLINE Vec<double> log2_of(Vec<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::log2(x[i]);
  return x;
}

// Rows i and i + Step of a block exchange the lanes that differ in bit Step; all steps together transpose it.
template <int Step, class V, std::size_t... I>
HONE_INLINE void exchange(V& a, V& b, std::index_sequence<I...>) {
  constexpr int n = sizeof...(I);
  const V low = __builtin_shufflevector(a, b, ((I & Step) ? static_cast<int>(n + I - Step) : static_cast<int>(I))...);
  b = __builtin_shufflevector(a, b, ((I & Step) ? static_cast<int>(n + I) : static_cast<int>(I + Step))...);
  a = low;
}
template <int Step, class V, int N>
HONE_INLINE void exchange_rows(V (&rows)[N]) {
  if constexpr (Step < N) {
    HONE_UNROLL
    for (int i = 0; i < N; ++i)
      if (!(i & Step)) exchange<Step>(rows[i], rows[i + Step], std::make_index_sequence<N>());
    exchange_rows<2 * Step>(rows);
  }
}
// Lane i: the lanes of row i brought together. The rows are lost.
template <int Step = 1, class V, int N, class Join>
HONE_INLINE V fold_rows(V (&rows)[N], Join join) {
  HONE_UNROLL
  for (int i = 0; i < N; i += 2 * Step) {
    exchange<Step>(rows[i], rows[i + Step], std::make_index_sequence<N>());
    rows[i] = join(rows[i], rows[i + Step]);
  }
  if constexpr (2 * Step < N)
    return fold_rows<2 * Step>(rows, join);
  else
    return rows[0];
}
// to[column][row] = from[row][column]; both counts are multiples of the lanes.
template <class U>
inline void transpose(const U* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, U* to,
                      std::int64_t to_stride) {
  constexpr int n = kRegisterBytes / sizeof(U);
  typedef U V __attribute__((vector_size(kRegisterBytes)));
  for (std::int64_t r = 0; r < rows; r += n)
    for (std::int64_t c = 0; c < columns; c += n) {
      V block[n];
      HONE_UNROLL
      for (int i = 0; i < n; ++i) block[i] = load_lanes<V>(from + (r + i) * from_stride + c);
      exchange_rows<1>(block);
      HONE_UNROLL
      for (int i = 0; i < n; ++i) store_lanes(to + (c + i) * to_stride + r, block[i]);
    }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
