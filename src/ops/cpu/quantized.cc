// Numbers of few bits; compiled once per instruction set.
#include "ops/cpu/quantized.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
float largest(const T* x, std::int64_t count) {
  Vec<Wide<T>> most{};
  each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
    const Vec<Wide<T>> v = load(x + i, part), size = v < 0 ? -v : v;
    most = size > most || size != size ? size : most;
  });
  Wide<T> found = 0;
  for (int i = 0; i < kLanes<Wide<T>>; ++i)
    if (most[i] > found || most[i] != most[i]) found = most[i];
  return static_cast<float>(found);
}

void block_to_four_bits(const float* x, std::int64_t count, const Nearest& nearest, std::uint8_t* codes) {
  std::uint8_t places[64];
  for (std::int64_t from = 0; from < count; from += 64) {
    const std::int64_t some = std::min<std::int64_t>(64, count - from);
    each_vector<float>(some, [&](std::int64_t i, auto part) {
      const Vec<float> v = load(x + from + i, part);
      Ints<float> place{};
      HONE_UNROLL
      for (int b = 0; b < 15; ++b) place -= v > all(nearest.bounds[b]);
      for (std::int64_t l = 0; l < std::min<std::int64_t>(kLanes<float>, some - i); ++l)
        places[i + l] = nearest.codes[place[l]];
    });
    for (std::int64_t i = 0; i < some; i += 2)
      codes[(from + i) / 2] =
          static_cast<std::uint8_t>(places[i] << 4 | (i + 1 < some ? places[i + 1] : nearest.codes[0]));
  }
}

template <class T>
void to_four_bits(const T* x, std::int64_t count, std::int64_t block, const Nearest& nearest, std::uint8_t* codes,
                  float* scales) {
  float scaled[4096];  // the longest that a block may be
  for (std::int64_t begin = 0; begin < count; begin += block, ++scales) {
    const std::int64_t some = std::min(block, count - begin);
    *scales = largest(x + begin, some);
    const float by = 1.0f / std::max(*scales, 1e-38f);
    for (std::int64_t i = 0; i < some; ++i) scaled[i] = static_cast<float>(load_one(x + begin + i)) * by;
    block_to_four_bits(scaled, some, nearest, codes + begin / 2);
  }
}

#if defined(__AVX2__)

// Two bytes of each of a table's 16 values, for both halves of a register.
struct ByteTables {
  __m256i low, high;
};
HONE_INLINE ByteTables tables_of(const std::uint16_t* values) {
  alignas(16) std::uint8_t low[16], high[16];
  for (int i = 0; i < 16; ++i)
    low[i] = static_cast<std::uint8_t>(values[i]), high[i] = static_cast<std::uint8_t>(values[i] >> 8);
  return {_mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(low))),
          _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(high)))};
}

// 64 numbers of 32 bytes, each the table's two bytes.
HONE_INLINE void look_up(const std::uint8_t* codes, const ByteTables& tables, std::uint16_t* to) {
  const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), mask = _mm256_set1_epi8(15);
  const __m256i first = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask), second = _mm256_and_si256(both, mask);
  const __m256i a = _mm256_unpacklo_epi8(first, second);  // 0 to 15, 32 to 47
  const __m256i b = _mm256_unpackhi_epi8(first, second);  // 16 to 31, 48 to 63
  const auto put = [&](__m256i places, std::uint16_t* at) {
    const __m256i low = _mm256_shuffle_epi8(tables.low, places), high = _mm256_shuffle_epi8(tables.high, places);
    const __m256i x = _mm256_unpacklo_epi8(low, high), y = _mm256_unpackhi_epi8(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm256_permute2x128_si256(x, y, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + 32), _mm256_permute2x128_si256(x, y, 0x31));
  };
  put(a, to);
  put(b, to + 16);
}

#endif

// What a block's codes mean.
template <class T>
void values_of(const FourBits& from, std::int64_t block, T* values) {
  const float scale = from.scales.of(block);
  for (int i = 0; i < 16; ++i) store_one(values + i, static_cast<Wide<T>>(from.table[i] * scale));
}

template <class T>
void block_from_four_bits(const std::uint8_t* codes, const T* values, std::int64_t count, T* to) {
  std::int64_t done = 0;
#if defined(__AVX2__)
  if constexpr (std::is_same_v<T, bf16>) {
    const ByteTables tables = tables_of(reinterpret_cast<const std::uint16_t*>(values));
    for (; done + 64 <= count; done += 64)
      look_up(codes + done / 2, tables, reinterpret_cast<std::uint16_t*>(to + done));
  }
#endif
  for (; done + 2 <= count; done += 2) {
    const std::uint8_t both = codes[done / 2];
    to[done] = values[both >> 4], to[done + 1] = values[both & 15];
  }
  if (done < count) to[done] = values[codes[done / 2] >> 4];
}

template <class T>
void from_four_bits(const FourBits& from, std::int64_t begin, std::int64_t end, T* to) {
  T values[16];
  for (std::int64_t at = begin; at < end; at += from.block) {
    values_of(from, at / from.block, values);
    block_from_four_bits(from.codes + at / 2, values, std::min(from.block, end - at), to + (at - begin));
  }
}

template <class T>
void to_int8(const T* x, std::int64_t count, std::int8_t* codes, float* scale) {
  *scale = largest(x, count);
  const float by = *scale > 1e-36f && *scale < INFINITY ? 127.0f / *scale : 0.0f;
  for (std::int64_t i = 0; i < count; ++i) {
    const float number = static_cast<float>(load_one(x + i)) * by;
    codes[i] = static_cast<std::int8_t>(std::nearbyint(number == number ? number : 0.0f));  // the scale tells
  }
}

template <class T>
void from_int8(const std::int8_t* codes, float scale, std::int64_t count, T* to) {
  const float by = scale * (1.0f / 127.0f);
  constexpr std::int64_t kSome = 256;
  float some[kSome];
  for (std::int64_t from = 0; from < count; from += kSome) {
    const std::int64_t here = std::min(kSome, count - from);
    for (std::int64_t i = 0; i < here; ++i) some[i] = static_cast<float>(codes[from + i]) * by;
    if constexpr (std::is_same_v<T, double>)
      std::copy_n(some, here, to + from);
    else
      each_vector<float>(here, [&](std::int64_t i, auto part) { store(to + from + i, load(some + i, part), part); });
  }
}

}  // namespace

template <class T>
QuantizedKernels<T> quantized_kernels() {
  return {to_four_bits<T>, from_four_bits<T>, to_int8<T>, from_int8<T>};
}
HONE_INSTANTIATE_KERNELS(QuantizedKernels, quantized_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
