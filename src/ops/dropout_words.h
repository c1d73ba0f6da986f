// What dropout goes by: a random word of each row and of each column, so that whether a number is kept is a function of
// the seed and of its place alone.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hone::ops {

// What words are made of: the seed, and which rows of a larger matrix those at hand are; null: the first ones.
struct DropoutSeed {
  using Rows = std::shared_ptr<const std::vector<std::int64_t>>;
  DropoutSeed(std::uint64_t seed, Rows rows = {}) : seed(seed), rows(std::move(rows)) {}  // NOLINT: a seed is one
  std::uint64_t seed;
  Rows rows;
};

// A random word for each row and each column of a matrix; row_word ^ column_word, mixed, decides. Philox words (Salmon
// et al., SC'11), mixed by two rounds of multiplication and shift (Wellons' lowbias32 constants).
struct DropoutWords {
  // first_row: of a larger matrix. Not with rows that the seed names.
  DropoutWords(const DropoutSeed& seed, std::int64_t rows, std::int64_t columns, std::int64_t first_row = 0);
  std::vector<std::uint32_t> rows, columns;
};

// rate of 2^31: a number is dropped when its 31 random bits are below.
inline std::int32_t dropout_threshold(double rate) { return static_cast<std::int32_t>(rate * 2147483648.0); }

inline bool keeps(std::uint32_t row_word, std::uint32_t column_word, std::int32_t threshold) {
  std::uint32_t x = row_word ^ column_word;
  x = (x ^ x >> 16) * 0x7feb352dU;
  x = (x ^ x >> 15) * 0x846ca68bU;
  return static_cast<std::int32_t>((x ^ x >> 16) >> 1) >= threshold;
}

}  // namespace hone::ops
