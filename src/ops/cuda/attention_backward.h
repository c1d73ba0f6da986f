// Gradients of attention by kernels of ours (kernels/attention_backward.cu), whose bits no timing decides.
//
// Letters: N tokens, H query heads, G key/value heads, K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "ops/attention.h"
#include "ops/cuda/fused_attention.h"
#include "ops/primitives.h"

namespace hone::ops::cuda_table {

// Which keys a query sees: so many before and after its own place; nothing: all of them.
struct Window {
  explicit Window(const Mask& mask) : causal(mask.kind == Mask::Kind::causal) {
    if (mask.window > 0) before = after = mask.window - 1;
    if (causal) after = 0;
  }
  bool causal;
  std::optional<std::int64_t> before, after;
};

// Slopes that are kept at a time, at most. They are as many as scores: where they are more, heads take turns, and where
// those of one head of keys are, they are computed twice.
inline constexpr std::int64_t kMostKeptBytes = std::int64_t{1} << 30;

// Of values of 16 bits, heads of whole packs of eight values up to 128, where rows and heads begin at multiples of 16
// bytes, and queries that are the keys' own tokens. Nothing: this GPU or such tensors are not for the kernels.
std::optional<AttentionGradients> ordered_attention_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                                             const Packed& packed, const AttentionOptions& options,
                                                             std::int64_t most_kept_bytes = kMostKeptBytes);
// Bytes that it keeps, of so many documents. The tensors need not be there.
std::int64_t ordered_attention_room(const AttentionSaved& saved, std::int64_t documents, std::int64_t longest,
                                    const AttentionOptions& options);

}  // namespace hone::ops::cuda_table
