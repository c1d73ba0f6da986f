// The language-model head.
#include "hone/layers.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/cross_entropy.h"
#include "ops/divergence.h"
#include "ops/linear.h"
#include "ops/log_probs.h"
#include "ops/soft_cap.h"

namespace hone::nn {

Head::Head(std::int64_t hidden, std::int64_t vocab, double std, Weight* tied, double soft_cap, Weight* bias)
    : tied_(tied != nullptr), soft_cap_(soft_cap), weight_(tied), bias_(bias) {
  if (tied) return;
  weight_ = &parameter("weight", {vocab, hidden}, Init{Init::Kind::normal, std});
  weight_->set_use(WeightUse::product);
}

bool Head::is_made_apart(const Pass& pass) const { return !tied_ && pass.adapter_of(*weight_); }

Tensor Head::logits(const Tensor& hidden, const Pass& pass) const {
  Tensor made = ops::linear(hidden, with_bias());
  if (is_made_apart(pass)) made = adapt(made, hidden, *weight_, pass);
  return ops::soft_capped(made.to(at::toOpMathType(weight_->use().scalar_type())), soft_cap_);
}

ops::TokenLogProbs Head::log_probs(const Tensor& hidden_BTD, const Tensor& labels_BT, const Pass& pass,
                                   bool with_statistics) const {
  const Tensor hidden_ND = hidden_BTD.flatten(0, -2), labels_N = labels_BT.flatten();
  if (!is_made_apart(pass) && !bias_)
    return ops::linear_log_probs(hidden_ND, weight_->use(), labels_N, with_statistics,
                                 {.soft_cap = soft_cap_, .head_sum = weight_->gradient_sum()});
  return ops::log_probs(logits(hidden_ND, pass), labels_N, with_statistics);
}

Tensor Head::cross_entropy(const Tensor& hidden_BTD, const Tensor& labels_BT, const Tensor& weight_BT, const Pass& pass,
                           const ops::CrossEntropyOptions& options, ops::LossSums* sums) const {
  HONE_ASSERT(hidden_BTD.numel() == labels_BT.numel() * hidden_BTD.size(-1));
  const Tensor hidden_ND = hidden_BTD.flatten(0, -2), labels_N = labels_BT.flatten();
  const Tensor weight_N = weight_BT.defined() ? weight_BT.flatten() : weight_BT;
  if (is_made_apart(
          pass)) {  // the logits of supervised tokens are held; on a device of all, as the host would have to wait
    if (!hidden_ND.is_cpu()) return ops::cross_entropy(logits(hidden_ND, pass), labels_N, weight_N, options, sums);
    const Tensor index_S = at::nonzero(labels_N != ops::kIgnoreIndex).squeeze(1);
    const ops::TaughtOptions those(options, index_S);
    return ops::cross_entropy(logits(hidden_ND.index_select(0, index_S), pass), labels_N.index_select(0, index_S),
                              weight_N.defined() ? weight_N.index_select(0, index_S) : weight_N, those.options, sums);
  }
  ops::CrossEntropyOptions all = options;
  all.head_sum = weight_->gradient_sum();
  all.soft_cap = soft_cap_;
  std::optional<ops::HeadBias> bias;
  if (bias_) all.bias = &bias.emplace(ops::HeadBias{bias_->use(), bias_->gradient_sum()});
  return ops::linear_cross_entropy(hidden_ND, weight_->use(), labels_N, weight_N, all, sums);
}

std::int64_t Head::vocab_size() const { return weight_->shape()[0]; }

ops::LinearWeight Head::with_bias() const {
  if (!bias_) return {weight_->use(), {}, weight_->gradient_sum()};
  return {weight_->use(), bias_->use(), weight_->gradient_sum(), bias_->gradient_sum()};
}

}  // namespace hone::nn
