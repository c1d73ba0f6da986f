// Single random numbers and permutations; bulk floats are in random_fill.cc. Only + - * / and sqrt in double: the same
// bits on every x86-64 machine.
#include "hone/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"
#include "base/philox.h"

namespace hone {
namespace {

philox::Counter philox_block(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  return philox::philox4x32_10({static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                                static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)},
                               {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

// Natural logarithm of a positive normal number, to about 1e-13: 2 atanh((m-1)/(m+1)) + e ln 2, m near 1.
inline double logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  double exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  const bool big = m > 1.4142135623730951;
  m = big ? m * 0.5 : m;
  exponent = big ? exponent + 1 : exponent;
  const double s = (m - 1) / (m + 1), z = s * s;
  const double series =
      1 + z * (1.0 / 3 + z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13 + z / 15))))));
  return 2 * s * series + exponent * 0.6931471805599453;
}

// cos and sin of 2 pi v for v in [0, 1), to about 1e-11: Taylor series within an eighth of a turn.
inline std::pair<double, double> turn(double v) {
  const auto quarter = static_cast<int>(v * 4 + 0.5);
  const double a = (v - quarter * 0.25) * 6.283185307179586, z = a * a;
  const double s = a * (1 + z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 - z / 39916800)))));
  const double c =
      1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z / 479001600)))));
  switch (quarter & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

// Two independent normal numbers from two words (Box-Muller).
inline std::pair<double, double> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2 * logarithm((a + 0.5) * 0x1p-32));
  const auto [c, s] = turn(b * 0x1p-32);
  return {radius * c, radius * s};
}

inline std::uint64_t mix(std::uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed, std::string_view stream) : key_(seed), stream_(hash64(stream)) {}

std::array<std::uint32_t, 4> Random::block(std::uint64_t index) const { return philox_block(key_, index, stream_); }

std::uint64_t Random::bits(std::uint64_t position) const {
  const auto words = block(position / 2);
  const std::size_t at = position % 2 * 2;
  return std::uint64_t{words[at]} << 32 | words[at + 1];
}

double Random::uniform(std::uint64_t position) const { return static_cast<double>(bits(position) >> 11) * 0x1p-53; }

double Random::normal(std::uint64_t position) const {
  const auto words = block(position / 4);
  const auto pair = position % 4 < 2 ? normal_pair(words[0], words[1]) : normal_pair(words[2], words[3]);
  return position % 2 == 0 ? pair.first : pair.second;
}

// The high half of a 128-bit product: even to about 2^-64, without a loop.
std::uint64_t Random::below(std::uint64_t limit, std::uint64_t position) const {
  HONE_ASSERT(limit > 0);
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits(position)) * limit) >> 64);
}

std::uint64_t Random::permuted(std::uint64_t index, std::uint64_t size) const {
  HONE_ASSERT(index < size);
  const int half = std::max(1, (64 - std::countl_zero((size - 1) | 1) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1, key = mix(key_ ^ mix(stream_ + 0x9E3779B97F4A7C15));
  do {  // a permutation of the next power of four; walking on until it falls below `size` keeps it one
    std::uint64_t left = index >> half, right = index & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const std::uint64_t next = left ^ (mix(right + key + round * 0xD1B54A32D192ED03) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}

}  // namespace hone
