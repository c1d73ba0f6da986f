// Philox4x32-10 and the float sequences made of it; internal to Random and its tests.
#pragma once

#include <array>
#include <cstdint>

namespace hone::philox {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

// Ten rounds, as in Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC'11).
constexpr Counter philox4x32_10(Counter counter, Key key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

inline constexpr int kLanes = 16;           // blocks made at once
inline constexpr int kFloats = 4 * kLanes;  // floats they give

// Floats of the blocks index .. index + kLanes - 1: in [0, 1), or normal with mean 0 and variance 1. `wide` uses AVX2,
// which the machine must have; the bits are the same either way.
void uniform_floats(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out, bool wide);
void normal_floats(std::uint64_t key, std::uint64_t stream, std::uint64_t index, float* out, bool wide);
bool has_wide();

}  // namespace hone::philox
