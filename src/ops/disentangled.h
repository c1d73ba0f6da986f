// Attention whose scores also say how far apart query and key stand (DeBERTa: He et al., 2020, arXiv:2006.03654).
//
// Letters: N tokens, H heads, K head size, P buckets of distances, L tokens of a document.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/op_options.h"
#include "ops/documents.h"

namespace hone::ops {

// What is added to the score of a query i and a key j, before it is scaled: q_i . keys[b] and k_j . queries[b], where b
// is the bucket of i - j. Either may be undefined: then it is not added.
struct DistanceScores {
  at::Tensor keys_PHK = {}, queries_PHK = {};
  // Of the distances -(m - 1), ..., m - 1, m the tokens of the longest document at least: below P.
  std::vector<std::int64_t> buckets = {};
};

// softmax((q k^T + distances) scale) v within documents, each token seeing all of its own. Rows outside of all are 0.
// REQUIRES: options have no window, cap or sinks.
at::Tensor disentangled_attention(const at::Tensor& q_NHK, const at::Tensor& k_NHK, const at::Tensor& v_NHK,
                                  const DistanceScores& distances, const Documents& documents,
                                  const AttentionOptions& options);

namespace reference {
// The same without dropout.
at::Tensor disentangled_attention(const at::Tensor& q_NHK, const at::Tensor& k_NHK, const at::Tensor& v_NHK,
                                  const DistanceScores& distances, const Documents& documents,
                                  const AttentionOptions& options);
}  // namespace reference

}  // namespace hone::ops
