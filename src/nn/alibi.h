// Scores that fall with the distance of key and query, each head by a slope of its own (ALiBi: Press et al., 2021,
// arXiv:2108.12409). docs/design/0036-scores-that-fall.md says why heads are wider for it.
//
// Letters: N tokens, H query heads, G key/value heads, K head size.
#pragma once

#include <cstdint>
#include <vector>

#include "hone/layers.h"

namespace hone::nn {

// Powers of 2^(-8/n), n the power of two at or below the number of heads; the heads beyond get every other power of
// 2^(-4/n).
std::vector<double> alibi_slopes(std::int64_t heads);

// Documents of up to 2^16 tokens, in any type; in fp32 and fp64 of any length.
class Alibi {
 public:
  explicit Alibi(std::vector<double> slopes) : slopes_(std::move(slopes)) {}  // of each query head

  // Of heads of that size with what says where their tokens stand: what a cache keeps of keys and values.
  static std::int64_t kept_size(std::int64_t head_size);

  // nn::attend() of scores that have slope * (place of the key - place of the query) added once they are scaled.
  // REQUIRES: a causal mask, a scale above 0, no soft cap.
  Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                const ops::AttentionOptions& options) const;

 private:
  Tensor of_queries(const Tensor& like, double scale, std::int64_t columns) const;
  std::vector<double> slopes_;
  mutable Tensor kept_1HC_;  // what queries get; of one device, type and scale
};

}  // namespace hone::nn
