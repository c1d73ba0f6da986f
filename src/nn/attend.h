// Attention as blocks call it: with a cache or without one is the pass's matter.
#pragma once

#include "hone/model.h"
#include "ops/attention.h"

namespace hone::nn {

// Of the pass's tokens, within their documents; in generation also to what the cache holds of them. options.dropout acts
// in training only, with numbers of its own for each layer of each pass. Shapes: ops/attention.h.
Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass, ops::AttentionOptions options);

}  // namespace hone::nn
