// What the losses of a language-model head have in common: which tokens count, and the logits chunk by chunk.
//
// Letters: N tokens, D hidden, V vocabulary, S supervised tokens, C tokens of a chunk.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/gradient_sum.h"
#include "hone/op_options.h"
#include "ops/primitives.h"

namespace hone::ops {

inline constexpr std::int64_t kIgnoreIndex = -100;

// The tokens that count, with their weights in `type`. index_S undefined: all tokens.
struct Supervised {
  at::Tensor index_S, labels_S, weight_S;
};
// Those that have a label. weight_N undefined: all 1. Throws Error(data) for a label outside of the vocabulary.
Supervised supervised(const at::Tensor& labels_N, const at::Tensor& weight_N, std::int64_t vocab, at::ScalarType type);
// All, at a weight of 0 where there is no label: how many have one is not known on a device's host, which would have to
// wait for it. A label outside of the vocabulary is refused by the device.
Supervised all_of(const at::Tensor& labels_N, const at::Tensor& weight_N, std::int64_t vocab, at::ScalarType type);

// Whether the head has logits for such rows, and for any at all.
inline bool are_rows_for(const at::Tensor& hidden_ND, const at::Tensor& head_VD) {
  return hidden_ND.dim() == 2 && head_VD.dim() == 2 && hidden_ND.size(1) == head_VD.size(1) && head_VD.numel() > 0;
}

// What is added to a head's logits, of its weight's type. sum: takes its gradient; null: autograd does.
struct HeadBias {
  at::Tensor bias_V;
  GradientSum* sum = nullptr;
};

// Where gradients go. Undefined: not wanted; in fp32 at least; with `add` the head's are added to what is there, those
// of the bias always.
struct HeadGradients {
  bool hidden = false;
  at::Tensor dhead_VD = {};
  bool add = false;
  at::Tensor dbias_V = {};
  bool any() const { return hidden || dhead_VD.defined() || dbias_V.defined(); }
};
// losses_S: each token's, times its weight. dhidden_SD undefined: not wanted.
struct HeadLosses {
  at::Tensor losses_S, dhidden_SD;
};
// Outside autograd, by chunks of tokens, as long as is good for the device. statistics_S4: as Backend::Sums::loss, with
// a teacher as taught_loss() (ops/divergence.h), or undefined.
HeadLosses head_losses(const at::Tensor& hidden_SD, const at::Tensor& head_VD, const LossTargets& targets,
                       const CrossEntropyOptions& options, HeadGradients& wanted, at::Tensor statistics_S4 = {});

}  // namespace hone::ops
