// Vectors of the instruction set that a kernel file is compiled for, as wide as its registers: one text for all sets.
// Included by kernel files only. GCC's and Clang's vector types carry the arithmetic; what they lack is here.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "ops/cpu/math-inl.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HONE_INLINE inline __attribute__((always_inline))
#define HONE_LAMBDA __attribute__((always_inline))
#define HONE_UNROLL _Pragma("GCC unroll 16")

namespace hone::ops::cpu::CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX512BF16)
inline constexpr int kRegisterBytes = 64, kRegisters = 32;
#elif defined(CPU_CAPABILITY_AVX2)
inline constexpr int kRegisterBytes = 32, kRegisters = 16;
#else
inline constexpr int kRegisterBytes = 16, kRegisters = 16;
#endif

// Vec: a register of W (float or double); Ints: as many integers of the same size, also what comparisons give.
template <class W>
struct LaneTypes {
  using Int = std::conditional_t<sizeof(W) == 8, std::int64_t, std::int32_t>;
  typedef W Vec __attribute__((vector_size(kRegisterBytes)));
  typedef Int Ints __attribute__((vector_size(kRegisterBytes)));
};
template <class W>
using Vec = typename LaneTypes<W>::Vec;
template <class W>
using Ints = typename LaneTypes<W>::Ints;
template <class W>
inline constexpr int kLanes = kRegisterBytes / sizeof(W);

template <class V, class U>
HONE_INLINE V load_lanes(const U* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class U>
HONE_INLINE void store_lanes(U* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}
// All lanes x. (x - 0 is x, also for -0: no subtraction is left.)
template <class W>
HONE_INLINE Vec<W> all(W x) {
  return x - Vec<W>{};
}
// The larger; b where either is not a number. (g++ makes two instructions where a is a constant; the unmasked intrinsic
// warns.)
template <class V>
HONE_INLINE V larger(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, Vec<float>>)
    return (V)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
  else
    return (V)_mm512_maskz_max_pd(0xff, (__m512d)a, (__m512d)b);
#else
  return a > b ? a : b;
#endif
}
template <class W>
HONE_INLINE Ints<W> count_up() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return Ints<W>{static_cast<typename LaneTypes<W>::Int>(I)...};
  }(std::make_index_sequence<kLanes<W>>());
}
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
  return (Vec<float>)((Ints<float>)p + ((Ints<float>)shifted << 23));
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
