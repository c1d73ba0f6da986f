// How uncertain a distribution over the vocabulary is, in nats, from its logits, and what that changes with.
//
// Letters: N tokens, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hone::ops {

// Of each token, of its `count` likeliest tokens among themselves (all: count >= V), in fp32 at least. Without a graph.
at::Tensor entropy_of_likeliest(const at::Tensor& logits_NV, std::int64_t count);

// The gradient of the logits, in fp32 at least, where that of each token's entropy, of all tokens, is d_N.
at::Tensor entropy_gradient(const at::Tensor& logits_NV, const at::Tensor& d_N);

}  // namespace hone::ops
