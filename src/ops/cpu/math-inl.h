// Loads, stores and functions for kernel loops, written so that g++ turns the loops into SIMD. Included by kernel files
// only.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

inline float load(const float* x) { return *x; }
inline double load(const double* x) { return *x; }
inline float load(const bf16* x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x->x) << 16); }

inline void store(float* y, float x) { *y = x; }
inline void store(double* y, double x) { *y = x; }
// Round to nearest even; NaN stays NaN.
inline void store(bf16* y, float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  y->x = static_cast<std::uint16_t>(x != x ? 0x7fc0u : rounded);
}

// The value that store and load would give: what another op would see.
template <class T>
Wide<T> rounded(Wide<T> x) {
  T kept;
  store(&kept, x);
  return load(&kept);
}

// e^x to about one unit in the last place of fp32 (Cephes); 0 below -87.3, infinity above 88.7, NaN for NaN.
inline float exp_of(float x) {
  const float clamped = x < -87.3365f ? -87.3365f : (x > 88.7228f ? 88.7228f : x);
  // n = round(x / ln 2): the addition of 1.5 * 2^23 rounds, and leaves n in the low bits.
  const float shifted = clamped * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors, so that n = 128 does not overflow.
  const std::int32_t whole = static_cast<std::int32_t>(n), half = whole >> 1;
  const float low = std::bit_cast<float>((half + 127) << 23), high = std::bit_cast<float>((whole - half + 127) << 23);
  const float y = p * low * high;
  return x < -87.3365f ? 0.0f : (x > 88.7228f ? INFINITY : (x != x ? x : y));
}
inline double exp_of(double x) { return std::exp(x); }

template <class W>
W sigmoid(W x) {
  return W(1) / (W(1) + exp_of(-x));
}

// Sums with independent partial sums in a fixed order, so that the loop is SIMD and every run gives the same bits.
template <class W, class Term>
W sum_over(std::int64_t count, Term&& term) {
  constexpr int kLanes = 32;
  W lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  W sum = lanes[0];
  for (; i < count; ++i) sum += term(i);
  return sum;
}

template <class W, class Term>
W max_over(std::int64_t count, Term&& term) {
  constexpr int kLanes = 32;
  W lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = -INFINITY;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) {
      const W x = term(i + j);
      lanes[j] = x > lanes[j] ? x : lanes[j];
    }
  W best = lanes[0];
  for (int j = 1; j < kLanes; ++j) best = lanes[j] > best ? lanes[j] : best;
  for (; i < count; ++i) best = term(i) > best ? term(i) : best;
  return best;
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
