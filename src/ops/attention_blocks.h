// Attention by the block-wise kernels: cuts documents into work for threads.
//
// Letters: as in attention.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hone/op_options.h"

namespace hone::ops::blocks {

// REQUIRES, of all tensors here: kernels_take() accepts them, the last dimension is dense, none is empty.

struct Attended {
  at::Tensor y_NHK, lse_HN;  // the result, and the logarithm of the sum of e^score
};
Attended attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                   const std::vector<Span>& spans, const AttentionOptions& options);

struct Gradients {
  at::Tensor q_NHK, k_NGK, v_NGK;
};
struct Saved {
  at::Tensor q_NHK, k_NGK, v_NGK;
  Attended result;
};
Gradients attention_backward(const at::Tensor& dy_NHK, const Saved& saved, const std::vector<Span>& spans,
                             const AttentionOptions& options);

at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options);

}  // namespace hone::ops::blocks
