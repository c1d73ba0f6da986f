// Plain types, and blocks of 32 numbers. A scale is rounded to fp16 in the file, but numbers are divided by what it was
// before.
#include "hub/gguf/blocks.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace hone::gguf {
namespace {

using io::GgufType;
constexpr std::size_t kSmallBlock = 32, kHalfSmallBlock = kSmallBlock / 2;

struct Out {
  std::byte* at;
  template <class T>
  void put(T value) {
    std::memcpy(at, &value, sizeof(T));
    at += sizeof(T);
  }
  void half(float value) { put(c10::Half(value).x); }
};

// The number farthest from zero, the first of several.
float farthest(std::span<const float> x) {
  float most = 0, found = 0;
  for (const float v : x)
    if (most < std::fabs(v)) most = std::fabs(v), found = v;
  return found;
}

float inverse(float d) { return d != 0 ? 1.0f / d : 0.0f; }

// Codes of 4 bits: number i beside number i + 16.
void put_low_bits(Out& out, const std::uint8_t (&codes)[kSmallBlock]) {
  for (std::size_t i = 0; i < kHalfSmallBlock; ++i)
    out.put(static_cast<std::uint8_t>((codes[i] & 0x0F) | ((codes[i + kHalfSmallBlock] & 0x0F) << 4)));
}

void put_fifth_bits(Out& out, const std::uint8_t (&codes)[kSmallBlock]) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < kSmallBlock; ++i) bits |= static_cast<std::uint32_t>(codes[i] >> 4 & 1) << i;
  out.put(bits);
}

// Q4_0 and Q5_0: x = d (code - half), where the farthest number is -half or its neighbours.
void signed_block(std::span<const float> x, int half, Out& out) {
  const float d = farthest(x) / static_cast<float>(-half), id = inverse(d), shift = static_cast<float>(half) + 0.5f;
  std::uint8_t codes[kSmallBlock];
  for (std::size_t i = 0; i < kSmallBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(std::min(2 * half - 1, static_cast<int>(x[i] * id + shift)));
  out.half(d);
  if (half > 8) put_fifth_bits(out, codes);
  put_low_bits(out, codes);
}

// Q4_1 and Q5_1: x = d code + least.
void shifted_block(std::span<const float> x, int most, Out& out) {
  float least = FLT_MAX, largest = -FLT_MAX;
  for (const float v : x) least = std::min(least, v), largest = std::max(largest, v);
  const float d = (largest - least) / static_cast<float>(most), id = inverse(d);
  std::uint8_t codes[kSmallBlock];
  for (std::size_t i = 0; i < kSmallBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(std::min(most, static_cast<int>((x[i] - least) * id + 0.5f)));
  out.half(d), out.half(least);
  if (most > 15) put_fifth_bits(out, codes);
  put_low_bits(out, codes);
}

// Q8_0: x = d code.
void byte_block(std::span<const float> x, Out& out) {
  const float d = std::fabs(farthest(x)) / 127.0f, id = inverse(d);
  out.half(d);
  for (const float v : x) out.put(static_cast<std::int8_t>(std::round(v * id)));
}

template <class Block>
void each_block(std::span<const float> x, const Block& block) {
  for (std::size_t at = 0; at < x.size(); at += kSmallBlock) block(x.subspan(at, kSmallBlock));
}

}  // namespace

void to_blocks(GgufType type, std::span<const float> x, std::span<std::byte> made) {
  HONE_ASSERT(made.size() == io::gguf_bytes(type, std::ssize(x)));
  if (is_k(type)) return to_k_blocks(type, x, made.data());
  Out out{made.data()};
  switch (type) {
    case GgufType::f16:
      for (const float v : x) out.half(v);
      return;
    case GgufType::bf16:
      for (const float v : x) out.put(c10::BFloat16(v).x);
      return;
    case GgufType::q4_0:
    case GgufType::q5_0:
      return each_block(x, [&](auto part) { signed_block(part, type == GgufType::q4_0 ? 8 : 16, out); });
    case GgufType::q4_1:
    case GgufType::q5_1:
      return each_block(x, [&](auto part) { shifted_block(part, type == GgufType::q4_1 ? 15 : 31, out); });
    case GgufType::q8_0:
      return each_block(x, [&](auto part) { byte_block(part, out); });
    default:
      HONE_ASSERT(type == GgufType::f32);
      std::memcpy(made.data(), x.data(), x.size_bytes());
  }
}

}  // namespace hone::gguf
