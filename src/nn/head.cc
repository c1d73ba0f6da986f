// The language-model head.
#include "hone/layers.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace hone::nn {

Head::Head(std::int64_t hidden, std::int64_t vocab, double std, Weight* tied) : tied_(tied != nullptr), weight_(tied) {
  if (!tied) weight_ = &parameter("weight", {vocab, hidden}, Init{Init::Kind::normal, std});
}

Tensor Head::logits(const Tensor& hidden) const {
  return ops::linear(hidden, with_bias()).to(at::toOpMathType(weight_->use().scalar_type()));
}

Tensor Head::cross_entropy(const Tensor& hidden_BTD, const Tensor& labels_BT, const Tensor& weight_BT,
                           const ops::CrossEntropyOptions& options) const {
  HONE_ASSERT(hidden_BTD.numel() == labels_BT.numel() * hidden_BTD.size(-1));
  ops::CrossEntropyOptions all = options;
  all.head_sum = weight_->gradient_sum();
  return ops::linear_cross_entropy(hidden_BTD.flatten(0, -2), weight_->use(), labels_BT.flatten(),
                                   weight_BT.defined() ? weight_BT.flatten() : weight_BT, all);
}

std::int64_t Head::vocab_size() const { return weight_->shape()[0]; }

ops::LinearWeight Head::with_bias() const { return {weight_->use(), {}, weight_->gradient_sum()}; }

}  // namespace hone::nn
