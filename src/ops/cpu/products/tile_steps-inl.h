// Steps of bf16 products by AMX (tile_steps.h): packing and multiplying them. Included by kernel files only.
#pragma once

#include <array>
#include <cstring>

#include "ops/cpu/products/tile_steps.h"
#include "ops/cpu/products/tiles-inl.h"

#if defined(CPU_CAPABILITY_AMX)
namespace hone::ops::cpu::CPU_CAPABILITY {

inline constexpr std::int64_t kSide = kTileSide, kStep = kTileStepBytes, kHalf = kStep / 2, kLine = 64;

typedef std::uint32_t WordVec __attribute__((vector_size(64)));

HONE_INLINE __m512i load_line(const void* from) { return _mm512_loadu_si512(from); }
HONE_INLINE void store_line(char* to, __m512i x) { _mm512_store_si512(to, x); }

// Two rows of 32 columns, the values of a column side by side: the first 16 columns, then the others.
HONE_INLINE void store_pairs(__m512i low, __m512i high, char* to) {
  alignas(64) static constexpr auto kOrder = [] {
    std::array<std::uint16_t, 64> order{};
    for (int j = 0; j < 32; ++j) order[2 * j] = j, order[2 * j + 1] = 32 + j;
    return order;
  }();
  store_line(to, _mm512_permutex2var_epi16(low, _mm512_load_si512(kOrder.data()), high));
  store_line(to + kHalf, _mm512_permutex2var_epi16(low, _mm512_load_si512(kOrder.data() + 32), high));
}

// A whole step of B whose columns lie side by side, of `count` panels; row by row, as memory lies.
HONE_INLINE void pack_across(const bf16* b, std::int64_t k_stride, std::int64_t count, char* to, std::int64_t panel) {
  for (int pair = 0; pair < 16; ++pair, b += 2 * k_stride)
    for (std::int64_t q = 0; q < count; ++q)
      store_pairs(load_line(b + q * kSide), load_line(b + k_stride + q * kSide), to + q * panel + pair * kLine);
}

// The same of one panel, where depth lies side by side.
HONE_INLINE void pack_along(const bf16* b, std::int64_t n_stride, char* to) {
  for (int tile = 0; tile < 2; ++tile) {
    WordVec block[16];
    HONE_UNROLL
    for (int i = 0; i < 16; ++i) block[i] = (WordVec)load_line(b + (tile * 16 + i) * n_stride);
    exchange_rows<1>(block);
    HONE_UNROLL
    for (int i = 0; i < 16; ++i) store_line(to + tile * kHalf + i * kLine, (__m512i)block[i]);
  }
}

// A whole step of 32 rows of A that lie across. Lanes are gathered by loads, so that three shuffles of each remain.
HONE_INLINE void pack_turned(const bf16* a, std::int64_t k_stride, char* to) {
  HONE_UNROLL
  for (int g = 0; g < 4; ++g) {  // eight rows of A
    __m512i r[8], t[8];
    HONE_UNROLL
    for (int i = 0; i < 8; ++i) {  // depth i, 8 + i, 16 + i, 24 + i in quarters
      const bf16* from = a + i * k_stride + g * 8;
      const auto quarter = [&](int part) HONE_LAMBDA {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part * 8 * k_stride));
      };
      __m512i x = _mm512_zextsi128_si512(quarter(0));
      x = _mm512_mask_broadcast_i32x4(x, 0x00f0, quarter(1));
      x = _mm512_mask_broadcast_i32x4(x, 0x0f00, quarter(2));
      r[i] = _mm512_mask_broadcast_i32x4(x, 0xf000, quarter(3));
    }
    HONE_UNROLL
    for (int i = 0; i < 8; i += 2)
      t[i] = _mm512_unpacklo_epi16(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi16(r[i], r[i + 1]);
    HONE_UNROLL
    for (int i = 0; i < 2; ++i) {
      HONE_UNROLL
      for (int j = 0; j < 2; ++j) {
        r[4 * i + 2 * j] = _mm512_maskz_unpacklo_epi32(0xffff, t[4 * i + j], t[4 * i + 2 + j]);
        r[4 * i + 2 * j + 1] = _mm512_maskz_unpackhi_epi32(0xffff, t[4 * i + j], t[4 * i + 2 + j]);
      }
    }
    HONE_UNROLL
    for (int c = 0; c < 4; ++c) {
      store_line(to + (g * 8 + 2 * c) * kLine, _mm512_maskz_unpacklo_epi64(0xff, r[c], r[4 + c]));
      store_line(to + (g * 8 + 2 * c + 1) * kLine, _mm512_maskz_unpackhi_epi64(0xff, r[c], r[4 + c]));
    }
  }
}

// 32 lines of 32 values, from `stride` values apart to one behind another.
HONE_INLINE void copy_lines(const bf16* from, std::int64_t stride, char* to) {
  HONE_UNROLL
  for (int i = 0; i < kSide; ++i) store_line(to + i * kLine, load_line(from + i * stride));
}

// What is there of a step at an edge: `lines` of `length` values, in 32 of 32.
HONE_INLINE void pad(const bf16* from, std::int64_t stride, std::int64_t lines, std::int64_t length, bf16* to) {
  std::memset(static_cast<void*>(to), 0, kSide * kSide * sizeof(bf16));
  for (std::int64_t i = 0; i < lines; ++i)
    std::memcpy(static_cast<void*>(to + i * kSide), from + i * stride, length * sizeof(bf16));
}

// Where A's two tiles of a step lie: rows `stride` bytes apart, the second one `half` behind, the next step `step`.
struct ASteps {
  const char* at;
  std::int64_t stride, half, step;
};

// Sums of 32 x 32 are in tiles 0 to 3; in memory they lie row by row.
inline constexpr std::int64_t kSums = kSide * kSide;

HONE_INLINE void clear_sums() {
  HONE_TILE_ZERO(0);
  HONE_TILE_ZERO(1);
  HONE_TILE_ZERO(2);
  HONE_TILE_ZERO(3);
}
HONE_INLINE void load_sums(const float* sums) {
  HONE_TILE_LOAD(0, sums, 2 * kLine);
  HONE_TILE_LOAD(1, sums + 16, 2 * kLine);
  HONE_TILE_LOAD(2, sums + 16 * kSide, 2 * kLine);
  HONE_TILE_LOAD(3, sums + 16 * kSide + 16, 2 * kLine);
}
HONE_INLINE void store_sums(float* sums) {
  HONE_TILE_STORE(0, sums, 2 * kLine);
  HONE_TILE_STORE(1, sums + 16, 2 * kLine);
  HONE_TILE_STORE(2, sums + 16 * kSide, 2 * kLine);
  HONE_TILE_STORE(3, sums + 16 * kSide + 16, 2 * kLine);
}

// Adds A B to the sums; B's steps lie `b_step` apart. beside(step, which of its four products): other work, done while
// the tiles multiply.
template <class Beside>
HONE_INLINE void add_steps(const ASteps& a, const char* b, std::int64_t b_step, std::int64_t steps, Beside&& beside) {
  const char *upper = a.at, *lower = a.at + a.half;
  for (std::int64_t s = 0; s < steps; ++s) {
    HONE_TILE_LOAD_ONCE(6, b, kLine);
    HONE_TILE_LOAD(4, upper, a.stride);
    HONE_TILE_LOAD_ONCE(7, b + kHalf, kLine);
    HONE_TILE_ADD_PRODUCT(0, 4, 6);
    beside(s, 0);
    HONE_TILE_ADD_PRODUCT(1, 4, 7);
    beside(s, 1);
    HONE_TILE_LOAD(5, lower, a.stride);
    HONE_TILE_ADD_PRODUCT(2, 5, 6);
    beside(s, 2);
    HONE_TILE_ADD_PRODUCT(3, 5, 7);
    upper += a.step, lower += a.step, b += b_step;
    beside(s, 3);
  }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
#endif
