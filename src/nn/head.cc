// The language-model head.
#include "hone/layers.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "nn/slices.h"
#include "nn/trained_rows.h"
#include "ops/cross_entropy.h"
#include "ops/divergence.h"
#include "ops/linear.h"
#include "ops/log_probs.h"
#include "ops/sliced_cross_entropy.h"
#include "ops/soft_cap.h"

namespace hone::nn {

// Of any shape and type, as buffers may be.
static Tensor flat_bias(const Weight& bias, const Weight& weight) {
  return bias.use().flatten().to(weight.use().scalar_type());
}

Head::Head(std::int64_t hidden, std::int64_t vocab, double std, Weight* tied, double soft_cap, Weight* bias)
    : tied_(tied != nullptr), soft_cap_(soft_cap), weight_(tied), bias_(bias) {
  if (tied) return;
  weight_ = &parameter("weight", {vocab, hidden}, Init{Init::Kind::normal, std});
  weight_->set_use(WeightUse::product);
  weight_->set_tensor_cut({.dimension = 0, .pieces = vocab});
}

static void require_whole(const Weight& weight) {
  if (!weight.layout().whole())
    throw Error(ErrorKind::config, "the model's head: no rank has all of it with parallel.tensor, where it gives the "
                                   "losses of labels alone")
        .hint("parallel.fsdp or parallel.context spread a model over ranks as well");
}

// What a tied head shares of its table's adapter; null: nothing, as other adapters are the look-ups' alone.
static const TrainedRows* shared_rows(const Head& head, const Weight& weight, const Pass& pass) {
  return head.tied() ? dynamic_cast<const TrainedRows*>(pass.adapter_of(weight)) : nullptr;
}

bool Head::is_made_apart(const Pass& pass) const {
  return tied_ ? shared_rows(*this, *weight_, pass) != nullptr : pass.adapter_of(*weight_) != nullptr;
}

Tensor Head::logits(const Tensor& hidden, const Pass& pass) const {
  const ops::LinearWeight own = with_bias();
  Tensor made = ops::linear(hidden, own);
  if (const TrainedRows* rows = shared_rows(*this, *weight_, pass))
    made = rows->in_logits(made, hidden, own.bias_O);
  else if (is_made_apart(pass))
    made = adapt(made, hidden, *weight_, pass);
  return ops::soft_capped(made.to(at::toOpMathType(weight_->use().scalar_type())), soft_cap_);
}

ops::TokenLogProbs Head::log_probs(const Tensor& hidden_BTD, const Tensor& labels_BT, const Pass& pass,
                                   bool with_statistics, bool with_entropy) const {
  require_whole(*weight_);
  const Tensor hidden_ND = hidden_BTD.flatten(0, -2), labels_N = labels_BT.flatten();
  if (const TrainedRows* rows = shared_rows(*this, *weight_, pass); rows && !bias_)
    return ops::linear_log_probs(hidden_ND, rows->in_table(weight_->use()), labels_N, with_statistics,
                                 {soft_cap_, nullptr, with_entropy});
  if (!is_made_apart(pass) && !bias_)
    return ops::linear_log_probs(hidden_ND, weight_->use(), labels_N, with_statistics,
                                 {soft_cap_, weight_->gradient_sum(), with_entropy});
  return ops::log_probs(logits(hidden_ND, pass), labels_N, with_statistics, with_entropy);
}

namespace {

struct Supervision {
  const Tensor &hidden_ND, &labels_N, &weight_N;
};
struct Slice {
  const Weight& weight;
  const Weight* bias;
  double soft_cap;
};

// Of this rank's tokens, by all ranks' slices of the vocabulary.
Tensor sliced_loss(const Supervision& own, const Slice& head, const Context& ranks, ops::CrossEntropyOptions options,
                   ops::LossSums* sums) {
  const std::int64_t first = head.weight.layout().offset[0], words = head.weight.layout().shape[0];
  options.head_sum = head.weight.gradient_sum(), options.soft_cap = head.soft_cap;
  const ops::HeadSlice slice{
      .head_vD = head.weight.use(),
      .bias_v = head.bias ? flat_bias(*head.bias, head.weight).narrow(0, first, words) : Tensor(),
      .first = first,
      .vocab = head.weight.shape()[0],
      .ranks = ranks.ranks(),
      .total = [&ranks](const Tensor& x) { return ranks.total(x); },
      .largest = [&ranks](const Tensor& x) { return ranks.largest(x); },
      .begin = ranks.begin(),
      .end = ranks.begin() + ranks.tokens()};
  return ops::sliced_cross_entropy(ranks.gather(own.hidden_ND), slice, ranks.gather_values(own.labels_N),
                                   own.weight_N.defined() ? ranks.gather_values(own.weight_N) : own.weight_N, options,
                                   sums);
}

}  // namespace

Tensor Head::cross_entropy(const Tensor& hidden_BTD, const Tensor& labels_BT, const Tensor& weight_BT, const Pass& pass,
                           const ops::CrossEntropyOptions& options, ops::LossSums* sums) const {
  HONE_ASSERT(hidden_BTD.numel() == labels_BT.numel() * hidden_BTD.size(-1));
  const Tensor hidden_ND = hidden_BTD.flatten(0, -2), labels_N = labels_BT.flatten();
  const Tensor weight_N = weight_BT.defined() ? weight_BT.flatten() : weight_BT;
  if (const Context* ranks = sharing(*weight_, pass))
    return sliced_loss({hidden_ND, labels_N, weight_N}, {*weight_, bias_, soft_cap_}, *ranks, options, sums);
  const TrainedRows* rows = shared_rows(*this, *weight_, pass);
  // The logits of supervised tokens are held; on a device of all, as the host would have to wait.
  if (is_made_apart(pass) && !rows) {
    if (!hidden_ND.is_cpu()) return ops::cross_entropy(logits(hidden_ND, pass), labels_N, weight_N, options, sums);
    const Tensor index_S = at::nonzero(labels_N != ops::kIgnoreIndex).squeeze(1);
    const ops::TaughtOptions those(options, index_S);
    return ops::cross_entropy(logits(hidden_ND.index_select(0, index_S), pass), labels_N.index_select(0, index_S),
                              weight_N.defined() ? weight_N.index_select(0, index_S) : weight_N, those.options, sums);
  }
  ops::CrossEntropyOptions all = options;
  all.head_sum = rows ? nullptr : weight_->gradient_sum();
  all.soft_cap = soft_cap_;
  std::optional<ops::HeadBias> bias;
  if (bias_) all.bias = &bias.emplace(ops::HeadBias{flat_bias(*bias_, *weight_), bias_->gradient_sum()});
  const Tensor head_VD = rows ? rows->in_table(weight_->use()) : weight_->use();
  return ops::linear_cross_entropy(hidden_ND, head_VD, labels_N, weight_N, all, sums);
}

std::int64_t Head::vocab_size() const { return weight_->shape()[0]; }

ops::LinearWeight Head::with_bias() const {
  require_whole(*weight_);
  if (!bias_) return {weight_->use(), {}, weight_->gradient_sum()};
  return {weight_->use(), flat_bias(*bias_, *weight_), weight_->gradient_sum(), bias_->gradient_sum()};
}

}  // namespace hone::nn
