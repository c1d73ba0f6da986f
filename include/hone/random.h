// Counter-based random numbers: each one is a function of (seed, stream, position), so nothing needs to be stored.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "hone/error.h"

namespace hone {

// Philox4x32-10 (Salmon et al., SC'11). Immutable: any thread may call any member.
class HONE_API Random {
 public:
  // The stream is named, for instance "init/model.norm.weight" or "shuffle/3"; equal names give equal numbers.
  Random(std::uint64_t seed, std::string_view stream);

  std::array<std::uint32_t, 4> block(std::uint64_t index) const;  // four independent 32-bit words
  std::uint64_t bits(std::uint64_t position) const;               // 64 random bits
  double uniform(std::uint64_t position) const;                   // [0, 1)
  double normal(std::uint64_t position) const;                    // mean 0, variance 1 (Box-Muller)
  std::uint64_t below(std::uint64_t limit, std::uint64_t position) const;  // [0, limit); REQUIRES: limit > 0

  // Fills `into` with elements start, start + 1, ... of the stream's float sequences; a range may be divided among
  // threads anywhere and gives the same bits on every x86-64 machine. These are other numbers than uniform() and
  // normal().
  void fill_uniform(std::span<float> into, std::uint64_t start, float low = 0, float high = 1) const;   // [low, high)
  void fill_normal(std::span<float> into, std::uint64_t start, float mean = 0, float deviation = 1) const;

  // Element `index` of a random permutation of [0, size), in O(1): a Feistel network with cycle walking.
  std::uint64_t permuted(std::uint64_t index, std::uint64_t size) const;

 private:
  std::uint64_t key_, stream_;
};

}  // namespace hone
