// Causal attention in which the tokens of some stretches see each other, as those of a picture do.
//
// Letters: N tokens, H query heads, G key/value heads (H a multiple of G), K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/op_options.h"
#include "ops/documents.h"

namespace hone::ops {

// attention() under a causal mask, but that a token of one of the spans of `mutual` sees those behind it in that span,
// too, however narrow the window is. They are in order, do not overlap, and lie in documents. Without soft cap, sinks
// and bias.
at::Tensor attention_mutual(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                            const Documents& documents, const Documents& mutual, const AttentionOptions& options);

}  // namespace hone::ops
