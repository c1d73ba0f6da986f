// The loss of a language-model head without ever holding the logits of a whole batch.
//
// Letters: N tokens, D hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/gradient_sum.h"
#include "hone/op_options.h"
#include "ops/head_losses.h"

namespace hone::ops {

// What is logged of a loss, without a graph, each a scalar: sums of the weights, of those of tokens whose label no
// logit is above, and of weight * z_loss * lse^2, which is in the loss. With a teacher also of weight * divergence and
// of weight * the loss of labels, as in TaughtLosses (ops/divergence.h).
struct LossSums {
  at::Tensor weight, right, z, divergence = {}, label = {};
};

// Sum over tokens of weight * loss(hidden head^T, label), or of what a teacher makes of it, in fp32 (fp64 for fp64
// input), as a graph scalar. Labels of -100 are skipped altogether; throws Error(data) for one outside [0, V). weight_N
// may be undefined (all 1) and has no gradient. Works through chunks of tokens whose logits stay below 32 MB; gradients
// are made in the same pass. `sums`: null, nothing is measured.
at::Tensor linear_cross_entropy(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                                const at::Tensor& weight_N, const CrossEntropyOptions& options = {},
                                LossSums* sums = nullptr);

// The same of logits that are there already, [N, V] in fp32 at least.
at::Tensor cross_entropy(const at::Tensor& logits_NV, const at::Tensor& labels_N, const at::Tensor& weight_N,
                         const CrossEntropyOptions& options = {}, LossSums* sums = nullptr);

namespace reference {
// Of each token, without its weight. lse: the logarithms of the sums of exp(logits).
at::Tensor token_losses(const at::Tensor& logits_NV, const at::Tensor& lse_N, const at::Tensor& labels_N,
                        const CrossEntropyOptions& options);
// By what each is multiplied: its weight and, if the options say so, its label's probability or a power of its
// distribution's entropy, without a graph.
at::Tensor token_weights(const at::Tensor& logits_NV, const at::Tensor& lse_N, const at::Tensor& labels_N,
                         const at::Tensor& weight_N, const CrossEntropyOptions& options);
at::Tensor linear_cross_entropy(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                                const at::Tensor& weight_N, const CrossEntropyOptions& options = {},
                                LossSums* sums = nullptr);
}  // namespace reference

}  // namespace hone::ops
