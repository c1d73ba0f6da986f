// Who attends to whom, and how.
#pragma once

#include <cstdint>

namespace hone::ops {

// A document's tokens, [begin, end) of the flat token axis.
struct Span {
  std::int64_t begin = 0, end = 0;
};

// Whom a token sees within its document: causal, itself and those before it; full, all. A window > 0 leaves it the
// window - 1 nearest of them, on each side that it sees.
struct Mask {
  enum class Kind { causal, full } kind = Kind::causal;
  std::int64_t window = 0;
  static constexpr Mask causal(std::int64_t window = 0) { return {Kind::causal, window}; }
  static constexpr Mask full(std::int64_t window = 0) { return {Kind::full, window}; }
};

struct AttentionOptions {
  double scale = 1;
  Mask mask;
  double soft_cap = 0;  // > 0: scores s are soft_cap * tanh(s / soft_cap), as in Gemma 2
  // attention() only: this share of the weights becomes 0 and the others 1 / (1 - dropout) times as large. Which ones
  // is a function of the seed, the query head and the places of query and key among the N tokens.
  double dropout = 0;
  std::uint64_t seed = 0;
};

}  // namespace hone::ops
