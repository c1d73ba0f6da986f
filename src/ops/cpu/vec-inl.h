// Vectors as wide as the registers of the instruction set that a kernel file is compiled for: one text for all sets.
// Included by kernel files only. GCC's vector types carry the arithmetic; what they lack is here.
//
// A loop over elements is each_vector(): its body is called for whole vectors and once for what is left over, with the
// same instructions, so that an element's bits do not depend on where a thread's share ends.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ops/cpu/kernel.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define HONE_INLINE inline __attribute__((always_inline))
#define HONE_LAMBDA __attribute__((always_inline))
#define HONE_UNROLL _Pragma("GCC unroll 16")

namespace hone::ops::cpu::CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX512BF16)
inline constexpr int kRegisterBytes = 64;
#elif defined(CPU_CAPABILITY_AVX2)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

template <class W>
inline constexpr int kLanes = kRegisterBytes / sizeof(W);

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

// All lanes x. (x - 0 is x, also for -0: no subtraction is left.)
template <class W>
HONE_INLINE Vec<W> all(W x) {
  return x - Vec<W>{};
}

// 0, 1, 2 ...
template <class W>
HONE_INLINE Ints<W> count_up() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return Ints<W>{static_cast<typename LaneTypes<W>::Int>(I)...};
  }(std::make_index_sequence<kLanes<W>>());
}

// How much of a vector is in memory: all of it, or the first `count` lanes; then the others are 0 when loaded.
struct Whole {};
struct Part {
  std::int64_t count;
};

// body(i, Whole or Part) for i = 0, kLanes, 2 kLanes ...
template <class W, class Body>
HONE_INLINE void each_vector(std::int64_t count, Body&& body) {
  std::int64_t i = 0;
  for (; i + kLanes<W> <= count; i += kLanes<W>) body(i, Whole{});
  if (i < count) body(i, Part{count - i});
}

// ---------------------------------------------------------------------------------------------- memory

// As the bytes lie.
template <class V, class U>
HONE_INLINE V load_lanes(const U* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class U>
HONE_INLINE void store_lanes(U* to, const V& v) {
  std::memcpy(static_cast<void*>(to), &v, sizeof v);
}

typedef std::uint16_t Halves __attribute__((vector_size(kRegisterBytes / 2)));
typedef std::uint32_t Words __attribute__((vector_size(kRegisterBytes)));

HONE_INLINE Vec<float> widen(Halves bits) {
#if defined(__AVX512F__)  // g++ 12 makes four instructions of the conversion
  const Words words = (Words)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits);
#elif defined(__AVX2__)
  const Words words = (Words)_mm256_cvtepu16_epi32((__m128i)bits);
#else
  const Words words = __builtin_convertvector(bits, Words);
#endif
  return (Vec<float>)(words << 16);
}
// Round to nearest even; NaN stays NaN.
HONE_INLINE Words bf16_bits(Vec<float> x) {
  const Words bits = (Words)x;
  return x != x ? (Words{} + 0x7fc0u) : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

template <class T>
HONE_INLINE Vec<Wide<T>> load(const T* from, Whole = {}) {
  if constexpr (std::is_same_v<T, bf16>)
    return widen(load_lanes<Halves>(from));
  else
    return load_lanes<Vec<T>>(from);
}
template <class T>
HONE_INLINE Vec<Wide<T>> load(const T* from, Part part) {
  T room[kLanes<Wide<T>>] = {};
  std::memcpy(static_cast<void*>(room), from, static_cast<std::size_t>(part.count) * sizeof(T));
  return load(room);
}

template <class T>
HONE_INLINE void store(T* to, Vec<Wide<T>> x, Whole = {}) {
  if constexpr (std::is_same_v<T, bf16>)
    store_lanes(to, __builtin_convertvector(bf16_bits(x), Halves));
  else
    store_lanes(to, x);
}
template <class T>
HONE_INLINE void store(T* to, Vec<Wide<T>> x, Part part) {
  T room[kLanes<Wide<T>>];
  store(room, x);
  std::memcpy(static_cast<void*>(to), room, static_cast<std::size_t>(part.count) * sizeof(T));
}

// One value, as a vector would be loaded and stored.
template <class T>
HONE_INLINE Wide<T> load_one(const T* from) {
  if constexpr (std::is_same_v<T, bf16>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(from->x) << 16);
  else
    return *from;
}
template <class T>
HONE_INLINE void store_one(T* to, Wide<T> x) {
  store(to, all(x), Part{1});
}

// The value that store and load would give: what another op would see.
template <class T>
HONE_INLINE Vec<Wide<T>> rounded(Vec<Wide<T>> x) {
  if constexpr (std::is_same_v<T, bf16>)
    return (Vec<float>)(bf16_bits(x) << 16);
  else
    return x;
}

// ---------------------------------------------------------------------------------------------- lanes

// The larger, the smaller; b where either is not a number.
template <class V>
HONE_INLINE V larger(V a, V b) {
#if defined(__AVX512F__)  // one instruction where g++ 12 makes two; the unmasked intrinsic warns
  if constexpr (std::is_same_v<V, Vec<float>>) return (V)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
  if constexpr (std::is_same_v<V, Vec<double>>) return (V)_mm512_maskz_max_pd(0xff, (__m512d)a, (__m512d)b);
#endif
  return a > b ? a : b;
}
template <class V>
HONE_INLINE V smaller(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, Vec<float>>) return (V)_mm512_maskz_min_ps(0xffff, (__m512)a, (__m512)b);
  if constexpr (std::is_same_v<V, Vec<double>>) return (V)_mm512_maskz_min_pd(0xff, (__m512d)a, (__m512d)b);
#endif
  return a < b ? a : b;
}

// The lanes that are in memory; `other` elsewhere.
template <class W>
HONE_INLINE Vec<W> kept(Vec<W> x, Vec<W>, Whole) {
  return x;
}
template <class W>
HONE_INLINE Vec<W> kept(Vec<W> x, Vec<W> other, Part part) {
  return count_up<W>() < static_cast<typename LaneTypes<W>::Int>(part.count) ? x : other;
}

// The two halves of a vector brought together until one value is left: a fixed order.
template <class V, class Join, std::size_t... I>
HONE_INLINE auto fold(V x, Join join, std::index_sequence<I...>) {
  constexpr int n = sizeof...(I);
  if constexpr (n == 1)
    return join(x[0], x[1]);
  else
    return fold(join(__builtin_shufflevector(x, x, static_cast<int>(I)...),
                     __builtin_shufflevector(x, x, static_cast<int>(I + n)...)),
                join, std::make_index_sequence<n / 2>());
}
template <class W>
HONE_INLINE W sum_of(Vec<W> x) {
  return fold(x, [](auto a, auto b) { return a + b; }, std::make_index_sequence<kLanes<W> / 2>());
}

// term(i, Whole or Part) brought together over all i < count, by four independent vectors, in a fixed order.
template <class W, class Term, class Join>
HONE_INLINE W fold_over(std::int64_t count, W none, Term&& term, Join&& join) {
  constexpr int kVectors = 4;
  Vec<W> so_far[kVectors];
  HONE_UNROLL
  for (int j = 0; j < kVectors; ++j) so_far[j] = all(none);
  std::int64_t i = 0;
  for (; i + kVectors * kLanes<W> <= count; i += kVectors * kLanes<W>) {
    HONE_UNROLL
    for (int j = 0; j < kVectors; ++j) so_far[j] = join(so_far[j], term(i + j * kLanes<W>, Whole{}));
  }
  each_vector<W>(count - i, [&](std::int64_t more, auto part) {
    so_far[0] = join(so_far[0], kept<W>(term(i + more, part), all(none), part));
  });
  return fold(join(join(so_far[0], so_far[1]), join(so_far[2], so_far[3])), join,
              std::make_index_sequence<kLanes<W> / 2>());
}
template <class W, class Term>
HONE_INLINE W sum_over(std::int64_t count, Term&& term) {
  return fold_over(count, W(0), term, [](auto a, auto b) { return a + b; });
}
template <class W, class Term>
HONE_INLINE W max_over(std::int64_t count, Term&& term) {
  return fold_over(count, W(-INFINITY), term, [](auto a, auto b) { return larger(a, b); });
}

// ---------------------------------------------------------------------------------------------- functions

// e^x to about one unit in the last place (Cephes' polynomial); 0 below -87.33, infinity above 88.72, NaN for NaN.
HONE_INLINE Vec<float> exp_of(Vec<float> x) {
  constexpr float kLow = -87.33f, kHigh = 88.73f;
  const Vec<float> within = smaller(all(kHigh), x);
  // n = round(x / ln 2): the addition of 1.5 * 2^23 rounds, and leaves n in the low bits.
  const Vec<float> shifted = within * 1.44269504088896341f + 12582912.0f, n = shifted - 12582912.0f;
  const Vec<float> r = (within - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
#if defined(__AVX512F__)
  const Vec<float> y = (Vec<float>)_mm512_maskz_scalef_ps(0xffff, (__m512)p, (__m512)n);
#else
  // 2^n in two factors, so that n = 128 does not overflow.
  const Ints<float> whole = (Ints<float>)shifted - 0x4b400000, half = whole >> 1;
  const Vec<float> y = p * (Vec<float>)((half + 127) << 23) * (Vec<float>)((whole - half + 127) << 23);
#endif
  return x < kLow ? Vec<float>{} : y;
}
HONE_INLINE Vec<double> exp_of(Vec<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

// tanh x to some units in the last place: its series near 0, where 1 - 2 / (e^2x + 1) loses them.
HONE_INLINE Vec<float> tanh_of(Vec<float> x) {
  const Vec<float> z = x * x;
  Vec<float> p = z * (62.0f / 2835) - 17.0f / 315;
  p = p * z + 2.0f / 15;
  p = p * z - 1.0f / 3;
  const Vec<float> near = x + x * z * p, far = 1 - 2 / (exp_of(2 * x) + 1);
  return z < 0.09f ? near : far;
}
HONE_INLINE Vec<double> tanh_of(Vec<double> x) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::tanh(x[i]);
  return x;
}

template <class V>
HONE_INLINE V sigmoid(V x) {
  return 1 / (1 + exp_of(-x));
}

// The normal distribution's Phi(x) = (1 + erf(x / sqrt 2)) / 2 from x and bell = e^(-x^2 / 2).
// Coefficients: tools/golden/fit_normal_cdf.py.
HONE_INLINE Vec<float> normal_cdf(Vec<float> x, Vec<float> bell) {
  const Vec<float> u = (Vec<float>)((Ints<float>)x & 0x7fffffff), q = 1 / (u + 4), t = 1 - 8 * q;
  constexpr float kRest[] = {0.000201261733f, 0.00157231791f, -0.00352618378f, -0.00752925081f, 0.0604066886f,
                             -0.186522678f,   0.387136698f,   -0.607896626f,   0.755285144f};
  Vec<float> p = all(-0.000120184399f);
  HONE_UNROLL
  for (const float c : kRest) p = p * t + c;
  const Vec<float> tail = bell * (q * p);
  return x < 0 ? tail : 1 - tail;
}
HONE_INLINE Vec<double> normal_cdf(Vec<double> x, Vec<double>) {
  for (int i = 0; i < kLanes<double>; ++i) x[i] = std::erfc(x[i] * -0.70710678118654752440) / 2;
  return x;
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
