// The loss of a head that is to come near to a teacher's distributions: its meaning, and a chunk of it with its
// gradient.
//
// Letters: N tokens, V vocabulary, C tokens of a chunk, K tokens that were said of each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/op_options.h"
#include "ops/primitives.h"

namespace hone::ops {

// What a teacher has said beforehand: ids of its likeliest tokens, int64, and the logarithms of their probabilities;
// -inf: there is no further one.
struct Said {
  at::Tensor ids_NK, log_probs_NK;
  double temperature = 1;  // that the teacher's logits were divided by
  bool among = false;      // the model's probabilities are those among these tokens
  Said of(std::int64_t begin, std::int64_t count) const;
};

// Another model's distributions of the same tokens, which a head's are to come near to.
struct Teacher {
  const Said* said = nullptr;  // what stands in place of a model
  at::Tensor hidden_NE = {}, head_VE = {};  // its hidden states, and its head for the vocabulary of the other
  double soft_cap = 0;                      // of its logits, as in CrossEntropyOptions
  double temperature = 1;                   // that both models' logits are divided by
  // What a token's loss is of: 0: KL(teacher || model), 1: KL(model || teacher), between them the generalized
  // Jensen-Shannon divergence, mix KL(teacher || m) + (1 - mix) KL(model || m) of m = mix teacher + (1 - mix) model
  // (Agarwal et al., 2023, arXiv:2306.13649).
  double mix = 0;           // where it has said things beforehand 0
  double weight = 1;  // of temperature^2 times the divergence; the loss of labels has what is left of 1
};

// Of each token; what it is made of, before their weights: temperature^2 times the divergence, the loss of the label.
struct TaughtLosses {
  at::Tensor losses_N, divergence_N, label_N;
};

namespace reference {
// Of logits in fp32 at least; a graph through the first.
TaughtLosses taught_losses(const at::Tensor& logits_NV, const at::Tensor& teacher_NV, const at::Tensor& labels_N,
                           const Teacher& teacher);
}  // namespace reference

// Weight times the loss into losses_C; with gradient, logits are replaced by theirs. statistics_C4, unless undefined:
// of each token divergence and loss of the label as in TaughtLosses, 1 where no logit is above the label's, the
// logarithm of the sum of exp of its logits.
void taught_loss(at::Tensor& logits_CV, const at::Tensor& teacher_CV, const LossTargets& targets, bool gradient,
                 const Teacher& teacher, at::Tensor& losses_C, at::Tensor& statistics_C4);

// The options of a loss for some of its tokens (undefined: for all): the teacher's hidden states are of all of them.
struct TaughtOptions {
  TaughtOptions(const CrossEntropyOptions& given, const at::Tensor& index_S);
  TaughtOptions(const TaughtOptions&) = delete;  // options point into it
  Said said;
  Teacher teacher;
  CrossEntropyOptions options;
};

}  // namespace hone::ops
