// Attention of queries to keys that lie elsewhere, and attention with a bias by distance.
//
// Letters: N queries, L keys, H query heads, G key/value heads (H a multiple of G), K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

struct SpanPair {
  Span queries, keys;
};

// softmax(q k^T scale + bias) v of each pair's queries over its keys, as far as the mask shows them to queries that
// stand at the last of them. No query is in two pairs; rows that are in none, or whose pair has no keys, are 0. In
// plain ATen, a pair at a time; nothing of the size of scores is kept for the backward pass. Without soft cap and
// sinks.
at::Tensor attention_between(const at::Tensor& q_NHK, const at::Tensor& k_LGK, const at::Tensor& v_LGK,
                             const std::vector<SpanPair>& pairs, const AttentionOptions& options);

}  // namespace hone::ops
