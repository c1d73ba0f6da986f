// Vectors of elements that are multiplied pair by pair and summed, one kind per element type and instruction set.
//
// Dots<T>: Element; kStep elements make one Value; Sum holds partial sums; totals() adds up kOuts of them at a time;
// kBand x kRows of them are what the registers hold. HONE_DOTS is defined where there are any. Included by kernel files
// of this folder only.
#pragma once

#include <cstring>

#include "ops/cpu/kernel.h"

#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX512BF16)
#define HONE_DOTS_512
#endif

#if defined(HONE_DOTS_512) || defined(CPU_CAPABILITY_AVX2)
#define HONE_DOTS
#include <immintrin.h>
#endif

namespace hone::ops::cpu::CPU_CAPABILITY {

template <class T>
struct Dots;

#if defined(HONE_DOTS_512)

struct Dots512 {
  using Sum = __m512;
  static constexpr int kOuts = 8, kBand = 4, kRows = 4;
  static Sum zero() { return _mm512_setzero_ps(); }
  // The totals of eight sums: halves are added until each has one lane left, all eight at a time. The masked forms,
  // because g++ 12 warns about the undefined value inside its plain ones.
  static void totals(const Sum* sum, float* total) {
    constexpr __mmask16 kAll = 0xffff;
    const auto fold2 = [](Sum a, Sum b) {
      return _mm512_add_ps(_mm512_maskz_unpacklo_ps(kAll, a, b), _mm512_maskz_unpackhi_ps(kAll, a, b));
    };
    const auto fold4 = [](Sum a, Sum b) {
      const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
      const __m512d low = _mm512_maskz_unpacklo_pd(0xff, x, y), high = _mm512_maskz_unpackhi_pd(0xff, x, y);
      return _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    };
    const Sum low = fold4(fold2(sum[0], sum[1]), fold2(sum[2], sum[3]));   // per 128 bits: outs 0 to 3
    const Sum high = fold4(fold2(sum[4], sum[5]), fold2(sum[6], sum[7]));  // and 4 to 7
    const Sum mixed = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAll, low, high, 0x44),
                                    _mm512_maskz_shuffle_f32x4(kAll, low, high, 0xee));
    const Sum all = _mm512_add_ps(mixed, _mm512_maskz_shuffle_f32x4(kAll, mixed, mixed, 0xb1));
    _mm_storeu_ps(total, _mm512_maskz_extractf32x4_ps(0xff, all, 0));
    _mm_storeu_ps(total + 4, _mm512_maskz_extractf32x4_ps(0xff, all, 2));
  }
};

template <>
struct Dots<float> : Dots512 {
  using Element = float;
  using Value = __m512;
  static constexpr std::int64_t kStep = 16;
  static Value load(const float* x) { return _mm512_loadu_ps(x); }
  static Value load_part(const float* x, std::int64_t count) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), x);
  }
  static Sum add_product(Sum sum, Value a, Value b) { return _mm512_fmadd_ps(a, b, sum); }
};

template <>
struct Dots<bf16> : Dots512 {
  using Element = bf16;
  static constexpr std::int64_t kStep = 32;
  static __m512i bits(const bf16* x) { return _mm512_loadu_si512(x); }
  static __m512i bits_of_part(const bf16* x, std::int64_t count) {
    return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint64_t{1} << count) - 1), x);
  }
#if defined(CPU_CAPABILITY_AVX512BF16)
  using Value = __m512bh;
  static Value load(const bf16* x) { return (Value)bits(x); }
  static Value load_part(const bf16* x, std::int64_t count) { return (Value)bits_of_part(x, count); }
  static Sum add_product(Sum sum, Value a, Value b) { return _mm512_dpbf16_ps(sum, a, b); }
#else
  struct Value {
    __m512 even, odd;
  };
  static Value widened(__m512i x) {
    return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, x, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
  }
  static Value load(const bf16* x) { return widened(bits(x)); }
  static Value load_part(const bf16* x, std::int64_t count) { return widened(bits_of_part(x, count)); }
  static Sum add_product(Sum sum, Value a, Value b) {
    return _mm512_fmadd_ps(a.odd, b.odd, _mm512_fmadd_ps(a.even, b.even, sum));
  }
#endif
};

#elif defined(CPU_CAPABILITY_AVX2)

struct Dots256 {
  using Sum = __m256;
  static constexpr int kOuts = 4, kBand = 4, kRows = 2;
  static Sum zero() { return _mm256_setzero_ps(); }
  static void totals(const Sum* sum, float* total) {
    const Sum all = _mm256_hadd_ps(_mm256_hadd_ps(sum[0], sum[1]), _mm256_hadd_ps(sum[2], sum[3]));
    _mm_storeu_ps(total, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
  }
};

template <>
struct Dots<float> : Dots256 {
  using Element = float;
  using Value = __m256;
  static constexpr std::int64_t kStep = 8;
  static Value load(const float* x) { return _mm256_loadu_ps(x); }
  static Value load_part(const float* x, std::int64_t count) {
    float room[kStep] = {};
    std::memcpy(room, x, count * sizeof(float));
    return load(room);
  }
  static Sum add_product(Sum sum, Value a, Value b) { return _mm256_fmadd_ps(a, b, sum); }
};

template <>
struct Dots<bf16> : Dots256 {
  using Element = bf16;
  struct Value {
    __m256 even, odd;
  };
  static constexpr std::int64_t kStep = 16;
  static Value load(const bf16* x) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
  }
  static Value load_part(const bf16* x, std::int64_t count) {
    std::uint16_t room[kStep] = {};
    std::memcpy(room, x, count * sizeof(bf16));
    return load(reinterpret_cast<const bf16*>(room));
  }
  static Sum add_product(Sum sum, Value a, Value b) {
    return _mm256_fmadd_ps(a.odd, b.odd, _mm256_fmadd_ps(a.even, b.even, sum));
  }
};

#endif

}  // namespace hone::ops::cpu::CPU_CAPABILITY
