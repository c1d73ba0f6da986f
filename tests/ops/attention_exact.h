// Attention of one head and its gradients in fp64, from the definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/attention_direct.h"
#include "ops/dropout_words.h"

namespace hone::ops::test {

struct ExactResult {
  std::vector<double> y, dq, dk, dv, lse;
};

// Rows of one head.
struct ExactRows {
  ExactRows(const std::vector<bf16>& x, std::int64_t row_size) : size(row_size), values(x.begin(), x.end()) {}
  const double* row(std::int64_t i) const { return values.data() + i * size; }
  std::int64_t size;
  std::vector<double> values;
};

inline double exact_dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0;
  for (std::int64_t d = 0; d < size; ++d) sum += a[d] * b[d];
  return sum;
}
inline void exact_add(double factor, const double* x, std::int64_t size, double* to) {
  for (std::int64_t d = 0; d < size; ++d) to[d] += factor * x[d];
}

// One query with the keys that it sees.
struct ExactPairs {
  std::int64_t begin = 0, end = 0;
  std::vector<double> share, slope, kept;  // kept: what dropout makes of 1; slope: of the score, by what was scaled
  double lse = 0;
};

inline ExactPairs exact_pairs(const AttentionShape& shape, const ExactRows& q, const ExactRows& k, std::int64_t i) {
  const std::int64_t place = i + shape.keys - shape.queries;
  ExactPairs pairs;
  if (shape.window > 0) pairs.begin = std::max<std::int64_t>(0, place - shape.window + 1);
  pairs.end = std::min(shape.keys, place + shape.ahead + 1);
  double top = -INFINITY, sum = 0;
  for (std::int64_t j = pairs.begin; j < pairs.end; ++j) {
    double score = exact_dot(q.row(i), k.row(j), shape.size) * shape.scale, slope = 1;
    if (shape.soft_cap > 0) {
      const double turned = std::tanh(score / shape.soft_cap);
      score = shape.soft_cap * turned, slope = 1 - turned * turned;
    }
    const cpu::AttentionDropout& drop = shape.dropout;
    const bool keep = drop.rate <= 0 || keeps(drop.queries[i], drop.keys[j], dropout_threshold(drop.rate));
    pairs.share.push_back(score), pairs.slope.push_back(slope), pairs.kept.push_back(keep ? 1 / (1 - drop.rate) : 0);
    top = std::max(top, score);
  }
  for (double& share : pairs.share) sum += share = std::exp(share - top);
  for (double& share : pairs.share) share /= sum;
  pairs.lse = top + std::log(sum);
  return pairs;
}

inline ExactResult attend_exactly(const AttentionShape& shape, const DirectInputs& in) {
  const std::int64_t size = shape.size;
  const ExactRows q(in.q, size), k(in.k, size), v(in.v, size), dy(in.dy, size);
  ExactResult out;
  for (auto* x : {&out.y, &out.dq}) x->resize(in.q.size());
  for (auto* x : {&out.dk, &out.dv}) x->resize(in.k.size());
  for (std::int64_t i = 0; i < shape.queries; ++i) {
    const ExactPairs pairs = exact_pairs(shape, q, k, i);
    out.lse.push_back(pairs.lse);
    double* y = out.y.data() + i * size;
    for (std::int64_t j = pairs.begin; j < pairs.end; ++j) {
      const double share = pairs.share[j - pairs.begin] * pairs.kept[j - pairs.begin];
      exact_add(share, v.row(j), size, y);
      exact_add(share, dy.row(i), size, out.dv.data() + j * size);
    }
    const double mean = exact_dot(y, dy.row(i), size);
    for (std::int64_t j = pairs.begin; j < pairs.end; ++j) {
      const std::int64_t at = j - pairs.begin;
      const double dp = exact_dot(dy.row(i), v.row(j), size) * pairs.kept[at];
      const double ds = pairs.share[at] * (dp - mean) * pairs.slope[at] * shape.scale;
      exact_add(ds, k.row(j), size, out.dq.data() + i * size);
      exact_add(ds, q.row(i), size, out.dk.data() + j * size);
    }
  }
  return out;
}

}  // namespace hone::ops::test
