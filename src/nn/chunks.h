// Attention in chunks, as Llama 4's: a token sees those before it whose places in the document lie in the same chunk of
// places.
#pragma once

#include <cstdint>

#include "hone/layers.h"

namespace hone::nn {

// As attend(), where `chunk` tokens from a document's begin on see each other, then as many more. REQUIRES: a causal
// mask without a window; a batch that one rank computes.
Tensor attend_in_chunks(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, std::int64_t chunk, Pass& pass,
                        const ops::AttentionOptions& options);

}  // namespace hone::nn
