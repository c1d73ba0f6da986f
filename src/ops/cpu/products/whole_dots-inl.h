// Chunks of 64 whole numbers in 16 bits, weights and x, that are multiplied and summed: one kind per instruction set.
//
// WholeDots: kRegisters of Numbers are a chunk; Sum holds partial sums; a Table has what four bits mean.
// HONE_WHOLE_DOTS is defined where there are any. Included by kernel files of this folder only.
#pragma once

#include <cstdint>

#include "ops/cpu/products/dots-inl.h"
#include "ops/cpu/vec-inl.h"

#if defined(HONE_DOTS)
#define HONE_WHOLE_DOTS

namespace hone::ops::cpu::CPU_CAPABILITY {

HONE_INLINE float total_of(__m256 x) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps(sum, sum, 1)));
}

#if defined(HONE_DOTS_512)

struct WholeDots {
  using Numbers = __m512i;
  using Sum = __m512;
  using Table = __m512i;
  static constexpr int kRegisters = 2;
  static constexpr __mmask32 kAll = ~__mmask32{};

  static Sum zero() { return _mm512_setzero_ps(); }
  static float total(Sum sum) {
    const __m512 high = _mm512_maskz_shuffle_f32x4(0xffff, sum, sum, 0xee);
    return total_of(_mm512_castps512_ps256(_mm512_add_ps(sum, high)));
  }
  static Table table_of(const std::int16_t* numbers) {  // [16]; twice, as places have a fifth bit that says nothing
    const __m256i once = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers));
    return _mm512_maskz_broadcast_i64x4(0xff, once);
  }
  // Where x's number of this place in a chunk must stand for four_bits: even places come before odd ones, as both
  // halves of bytes do.
  static constexpr std::int64_t place_of(std::int64_t i) { return i % 2 * 32 + i / 2; }
  static void four_bits(const std::uint8_t* codes, Table table, Numbers* weights) {
    const __m512i both = _mm512_maskz_cvtepu8_epi16(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
    weights[0] = _mm512_maskz_permutexvar_epi16(kAll, _mm512_maskz_srli_epi16(kAll, both, 4), table);
    weights[1] = _mm512_maskz_permutexvar_epi16(kAll, both, table);
  }
  static void eight_bits(const std::int8_t* codes, Numbers* weights) {
    HONE_UNROLL
    for (int i = 0; i < kRegisters; ++i)
      weights[i] =
          _mm512_maskz_cvtepi8_epi16(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32 * i)));
  }
  // sum + scale * (weights . x).
  static Sum add(Sum sum, const Numbers* weights, const std::int16_t* x, float scale) {
    const __m512i first = _mm512_loadu_si512(x), second = _mm512_loadu_si512(x + 32);
    const __m512i whole = _mm512_add_epi32(_mm512_madd_epi16(weights[0], first), _mm512_madd_epi16(weights[1], second));
    return _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xffff, whole), _mm512_set1_ps(scale), sum);
  }
};

#else

struct WholeDots {
  using Numbers = __m256i;
  using Sum = __m256;
  struct Table {
    __m256i low, high;  // the bytes of its numbers, for both halves of a register
  };
  static constexpr int kRegisters = 4;

  static __m256i bits(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static Sum zero() { return _mm256_setzero_ps(); }
  static float total(Sum sum) { return total_of(sum); }
  static Table table_of(const std::int16_t* numbers) {
    alignas(16) std::uint8_t low[16], high[16];
    for (int i = 0; i < 16; ++i) {
      const auto number = static_cast<std::uint16_t>(numbers[i]);
      low[i] = static_cast<std::uint8_t>(number), high[i] = static_cast<std::uint8_t>(number >> 8);
    }
    return {_mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(low))),
            _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(high)))};
  }
  // As above; and of each half the first and third eight stand before the others, as registers are woven.
  static constexpr std::int64_t place_of(std::int64_t i) {
    const std::int64_t byte = i / 2, half = i % 2;
    const std::int64_t quarter = byte / 8;  // 0, 2: the first sixteen; 1, 3: the others
    return half * 32 + (quarter % 2) * 16 + (quarter / 2) * 8 + byte % 8;
  }
  static void four_bits(const std::uint8_t* codes, const Table& table, Numbers* weights) {
    const __m256i both = bits(codes), mask = _mm256_set1_epi8(15);
    const __m256i halves[] = {_mm256_and_si256(_mm256_srli_epi16(both, 4), mask), _mm256_and_si256(both, mask)};
    HONE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const __m256i low = _mm256_shuffle_epi8(table.low, halves[h]), high = _mm256_shuffle_epi8(table.high, halves[h]);
      weights[2 * h] = _mm256_unpacklo_epi8(low, high), weights[2 * h + 1] = _mm256_unpackhi_epi8(low, high);
    }
  }
  static void eight_bits(const std::int8_t* codes, Numbers* weights) {
    HONE_UNROLL
    for (int i = 0; i < kRegisters; ++i)
      weights[i] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + 16 * i)));
  }
  static Sum add(Sum sum, const Numbers* weights, const std::int16_t* x, float scale) {
    const auto product = [&](int i) { return _mm256_madd_epi16(weights[i], bits(x + 16 * i)); };
    const __m256i whole =
        _mm256_add_epi32(_mm256_add_epi32(product(0), product(1)), _mm256_add_epi32(product(2), product(3)));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(scale), sum);
  }
};

#endif

}  // namespace hone::ops::cpu::CPU_CAPABILITY
#endif
