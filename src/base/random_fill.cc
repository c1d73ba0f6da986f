// Bulk random floats: sixteen Philox blocks at a time, in loops that the compiler turns into SIMD code.
//
// Only +, -, *, / and sqrt on floats, in a fixed order and without fused multiply-add, so every machine gives the same
// bits. The polynomials for log, sin and cos are those of Cephes (single precision).
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/philox.h"
#include "hone/random.h"

#define HONE_INLINE inline __attribute__((always_inline))
#define HONE_AVX2 __attribute__((target("avx2")))

namespace hone::philox {
namespace {

struct Words {
  alignas(64) std::uint32_t word[4][kLanes];
};

HONE_INLINE void one_round(Words& w, std::uint32_t key0, std::uint32_t key1) {
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * w.word[0][i], b = std::uint64_t{0xCD9E8D57} * w.word[2][i];
    w.word[0][i] = static_cast<std::uint32_t>(b >> 32) ^ w.word[1][i] ^ key0;
    w.word[1][i] = static_cast<std::uint32_t>(b);
    w.word[2][i] = static_cast<std::uint32_t>(a >> 32) ^ w.word[3][i] ^ key1;
    w.word[3][i] = static_cast<std::uint32_t>(a);
  }
}

HONE_INLINE void make_words(std::uint64_t key, std::uint64_t stream, std::uint64_t index, Words& w) {
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t block = index + static_cast<std::uint64_t>(i);
    w.word[0][i] = static_cast<std::uint32_t>(block);
    w.word[1][i] = static_cast<std::uint32_t>(block >> 32);
    w.word[2][i] = static_cast<std::uint32_t>(stream);
    w.word[3][i] = static_cast<std::uint32_t>(stream >> 32);
  }
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) one_round(w, key0, key1);
}

constexpr float kUlp = 1.0f / (1 << 24);

// ln(x) for x in (0, 1].
HONE_INLINE float log_of(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  std::int32_t exponent = (bits >> 23) - 126;
  float m = std::bit_cast<float>((bits & 0x007FFFFF) | 0x3F000000);  // [0.5, 1)
  const bool low = m < 0.70710678f;
  exponent -= low ? 1 : 0;
  m = (low ? m + m : m) - 1.0f;
  const float z = m * m;
  float y = 7.0376836292e-2f;
  y = y * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  const auto e = static_cast<float>(exponent);
  return (m + ((m * z) * y + e * -2.12194440e-4f - 0.5f * z)) + e * 0.693359375f;
}

// Two independent normal numbers of two 32-bit words (Box-Muller).
HONE_INLINE void normal_pair(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  const float u = static_cast<float>(static_cast<std::int32_t>(a >> 8) + 1) * kUlp;  // (0, 1]
  const float turn = static_cast<float>(static_cast<std::int32_t>(b >> 8)) * kUlp;   // [0, 1)
  const float radius = std::sqrt(-2.0f * log_of(u));
  const auto quarter = static_cast<std::int32_t>(turn * 4.0f + 0.5f);
  const float x = (turn * 4.0f - static_cast<float>(quarter)) * 1.57079632679f;  // [-pi/4, pi/4]
  const float z = x * x;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const bool swap = (quarter & 1) != 0;
  const float cosine = swap ? s : c, sine = swap ? c : s;
  first = radius * (((quarter + 1) & 2) != 0 ? -cosine : cosine);
  second = radius * ((quarter & 2) != 0 ? -sine : sine);
}

HONE_INLINE void make_uniform(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out) {
  Words w;
  make_words(key, stream, index, w);
  for (int i = 0; i < kLanes; ++i)
    for (int k = 0; k < 4; ++k)
      out[4 * i + k] = static_cast<float>(static_cast<std::int32_t>(w.word[k][i] >> 8)) * kUlp;
}

HONE_INLINE void make_normal(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out) {
  Words w;
  make_words(key, stream, index, w);
  alignas(64) float value[4][kLanes];
  for (int i = 0; i < kLanes; ++i) normal_pair(w.word[0][i], w.word[1][i], value[0][i], value[1][i]);
  for (int i = 0; i < kLanes; ++i) normal_pair(w.word[2][i], w.word[3][i], value[2][i], value[3][i]);
  for (int i = 0; i < kLanes; ++i)
    for (int k = 0; k < 4; ++k) out[4 * i + k] = value[k][i];
}

HONE_AVX2 void wide_uniform(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out) {
  make_uniform(key, stream, index, out);
}
HONE_AVX2 void wide_normal(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out) {
  make_normal(key, stream, index, out);
}

// Copies the part [start, start + into.size()) of the sequence that `make` gives in pieces of kFloats.
template <class Make>
void fill(std::span<float> into, std::uint64_t start, float scale, float shift, Make make) {
  float piece[kFloats];
  for (std::size_t done = 0; done < into.size();) {
    const std::uint64_t at = start + done, skip = at % kFloats;
    make(at / kFloats * kLanes, piece);
    const std::size_t count = std::min<std::size_t>(kFloats - skip, into.size() - done);
    for (std::size_t i = 0; i < count; ++i) into[done + i] = piece[skip + i] * scale + shift;
    done += count;
  }
}

}  // namespace

bool has_wide() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

void uniform_floats(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out, bool wide) {
  wide ? wide_uniform(key, stream, index, out) : make_uniform(key, stream, index, out);
}
void normal_floats(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out, bool wide) {
  wide ? wide_normal(key, stream, index, out) : make_normal(key, stream, index, out);
}

}  // namespace hone::philox

namespace hone {

void Random::fill_uniform(std::span<float> into, std::uint64_t start, float low, float high) const {
  philox::fill(into, start, high - low, low, [&, wide = philox::has_wide()](std::uint64_t index, float* out) {
    philox::uniform_floats(key_, stream_, index, out, wide);
  });
  // Rounding can reach `high` itself; the promise is below it.
  for (float& value : into)
    if (value >= high && high > low) value = std::nextafter(high, low);
}

void Random::fill_normal(std::span<float> into, std::uint64_t start, float mean, float deviation) const {
  philox::fill(into, start, deviation, mean, [&, wide = philox::has_wide()](std::uint64_t index, float* out) {
    philox::normal_floats(key_, stream_, index, out, wide);
  });
}

}  // namespace hone
