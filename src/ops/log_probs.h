// How likely a language-model head thinks each label: for objectives whose loss is a function of whole answers.
//
// Letters: N tokens, D hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"
#include "hone/op_options.h"

namespace hone::ops {

// Of each token, in fp32 (fp64 for fp64 input).
struct TokenLogProbs {
  at::Tensor log_probs_N;    // of its label, with a graph; 0 where that is -100
  at::Tensor statistics_N4;  // if asked for, without a graph: the entropy of its distribution in nats, the mean of its
                             // logits, 1 where no logit is above the label's, the logarithm of the sum of exp of its
                             // logits; 0 where there is no label
  at::Tensor entropy_N = {};  // if asked for, with a graph: the first of these
};

struct LogProbsOptions {
  double soft_cap = 0;              // of the logits, as in CrossEntropyOptions
  GradientSum* head_sum = nullptr;  // takes the head's gradient; null: autograd does
  bool with_entropy = false;
};

// log softmax(hidden head^T) at the labels, without the logits of more than a chunk of tokens at a time. Where the
// head's gradient is wanted, or that of entropies, backward makes the logits once more; else forward makes what
// gradients need. Throws Error(data) for a label outside [0, V).
TokenLogProbs linear_log_probs(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                               bool with_statistics, const LogProbsOptions& options = {});

// The same of logits that are there already, [N, V] in fp32 at least.
TokenLogProbs log_probs(const at::Tensor& logits_NV, const at::Tensor& labels_N, bool with_statistics,
                        bool with_entropy = false);

namespace reference {
TokenLogProbs linear_log_probs(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& labels_N,
                               bool with_statistics, double soft_cap = 0, bool with_entropy = false);
at::Tensor token_statistics(const at::Tensor& logits_NV, const at::Tensor& lse_N, const at::Tensor& labels_N);
}  // namespace reference

}  // namespace hone::ops
