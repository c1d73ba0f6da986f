// The language-model head: from hidden states to logits, or straight to the loss without holding [B,T,V].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/module.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace hone::nn {

class Head final : public Module {
 public:
  // tied: the embedding's weight, which is then used instead of an own one (and listed under its own name only).
  Head(std::int64_t hidden, std::int64_t vocab, double std, Weight* tied = nullptr);

  // [..., D] -> [..., V] in fp32 (fp64 for fp64 models). Computed in the weight's type, as transformers does.
  Tensor logits(const Tensor& hidden) const;

  // Sum over positions of weight * cross-entropy: a graph scalar, fp32 (fp64 for fp64 models). labels_BT is the target
  // AT t; -100 is skipped. weight_BT undefined = all 1. The trainer divides.
  Tensor cross_entropy(const Tensor& hidden_BTD, const Tensor& labels_BT, const Tensor& weight_BT,
                       const ops::CrossEntropyOptions& options = {}) const;

  std::int64_t vocab_size() const { return weight_->shape()[0]; }
  bool tied() const { return tied_; }
  ops::LinearWeight with_bias() const { return {weight_->use(), {}, weight_->gradient_sum()}; }  // as Linear's

 private:
  bool tied_;
  Weight* weight_;
};

}  // namespace hone::nn
