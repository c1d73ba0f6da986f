// Losses of answers with advantages.
#include "objectives/policy_losses.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tensor/by_document.h"

namespace hone::objectives {
namespace {

using at::Tensor;

constexpr double kMostLogRatio = 20, kLeastWeight = 1e-8;  // of vespo

struct Ratios {
  const PolicyTokens& t;
  Tensor old_N = t.old_N.defined() ? t.old_N : t.log_probs_N.detach();
  Tensor log_ratio_N = (t.log_probs_N - old_N) * t.mask_N;
  Tensor lengths_S = sums_by_document(t.mask_N, t.documents_N, t.answers());
  Tensor advantage_N = each_token(t.advantages_S.to(t.log_probs_N.scalar_type()), t.documents_N);

  Tensor mean_S(const Tensor& values_N) const {
    return sums_by_document(values_N, t.documents_N, t.answers()) / lengths_S.clamp_min(1);
  }
  Tensor as_tokens(const Tensor& values_S) const {
    return each_token(values_S.to(t.log_probs_N.scalar_type()), t.documents_N);
  }
};

// 1 for answers that are worth it, or not far from how likely they were (DeepSeek-V3.2, 2025, arXiv:2512.02556).
Tensor kept_S(const Ratios& ratios, double threshold) {
  const Tensor far_S = -ratios.mean_S(ratios.log_ratio_N.detach());
  return ratios.t.advantages_S.ge(0) | far_S.le(threshold);
}

// What w = an answer's ratio makes of its weight: e^lambda w^k e^(-lambda w), 1 where w is.
Tensor gamma_weights(const Ratios& ratios, const PolicyLossOptions& o) {
  const Tensor log_w_S = sums_by_document(ratios.log_ratio_N.detach().clamp(-kMostLogRatio, kMostLogRatio),
                                          ratios.t.documents_N, ratios.t.answers())
                             .clamp(std::log(kLeastWeight), kMostLogRatio);
  const Tensor good_S = ratios.t.advantages_S.ge(0);
  const auto either = [&](double good, double bad) {
    return at::where(good_S, at::full_like(log_w_S, good), at::full_like(log_w_S, bad));
  };
  const Tensor k_S = either(o.vespo_k_pos, o.vespo_k_neg), lambda_S = either(o.vespo_lambda_pos, o.vespo_lambda_neg);
  return (lambda_S + k_S * log_w_S - lambda_S * log_w_S.exp()).exp();
}

// counted: the ratio, with what delta leaves of it.
Tensor clipped_losses(const Tensor& counted, const Tensor& ratio, const Tensor& advantage, const PolicyLossOptions& o) {
  // Both bounds at once: none on meta tensors.
  const Tensor within = ratio.clamp_min(o.least_ratio()).clamp_max(o.most_ratio());
  return -at::minimum(counted * advantage, within * advantage);
}

void tell_clipped(const Tensor& ratio, const Tensor& advantage, const PolicyLossOptions& o, PolicyTerms& terms) {
  terms.high_clipped = (ratio.gt(o.most_ratio()) & advantage.gt(0)).to(ratio.scalar_type());
  if (o.loss_type == PolicyLoss::cispo) return;
  terms.low_clipped = (ratio.lt(o.least_ratio()) & advantage.lt(0)).to(ratio.scalar_type());
}

// Of each token, before anything of it is left out. counted_N: what `delta` leaves of the ratio.
void add_losses(const Ratios& ratios, const Tensor& ratio_N, const Tensor& counted_N, const PolicyLossOptions& o,
                PolicyTerms& terms) {
  const Tensor& advantage_N = ratios.advantage_N;
  switch (o.loss_type) {
    case PolicyLoss::cispo:
      terms.losses_N = -ratio_N.clamp_max(o.high()).detach() * advantage_N * ratios.t.log_probs_N;
      break;
    case PolicyLoss::sapo: {
      const Tensor sharp_N = at::where(advantage_N.gt(0), at::full_like(ratio_N, o.sapo_temperature_pos),
                                       at::full_like(ratio_N, o.sapo_temperature_neg));
      terms.losses_N = -at::sigmoid(sharp_N * (ratio_N - 1)) * 4 / sharp_N * advantage_N;
      break;
    }
    case PolicyLoss::vespo:
      terms.weights_S = gamma_weights(ratios, o);
      terms.losses_N = -ratios.as_tokens(terms.weights_S) * advantage_N * ratios.t.log_probs_N;
      break;
    default:
      terms.losses_N = clipped_losses(counted_N, ratio_N, advantage_N, o);
  }
}

// Of one sample, never below 0 (Schulman, 2020).
Tensor divergence_of(const PolicyTokens& t) {
  const Tensor d_N = (t.reference_N - t.log_probs_N) * t.mask_N;
  return d_N.exp() - d_N - 1;
}

void add_divergence(const PolicyTokens& t, const Tensor& ratio_N, const PolicyLossOptions& o, PolicyTerms& terms) {
  Tensor divergence_N = divergence_of(t);
  if (o.corrects_divergence) divergence_N = divergence_N * ratio_N;
  terms.losses_N = terms.losses_N + o.beta * divergence_N;
  terms.divergence_N = divergence_N.detach() * t.mask_N;
}

// Clipped where that is the lesser gain, in logarithms; tokens that are not learnt from are not in the mean.
PolicyTerms geometric_terms(const Ratios& ratios, const PolicyLossOptions& o) {
  const PolicyTokens& t = ratios.t;
  const Tensor &log_N = ratios.log_ratio_N, &advantage_N = ratios.advantage_N;
  const Tensor within_N = log_N.clamp_min(-o.epsilon).clamp_max(o.high());
  const Tensor clipped_N = at::where(advantage_N.gt(0), at::minimum(log_N, within_N), at::maximum(log_N, within_N));
  const Tensor counted_N = t.learnt_N.defined() ? t.mask_N * t.learnt_N : t.mask_N;
  const auto sums_S = [&](const Tensor& values_N) { return sums_by_document(values_N, t.documents_N, t.answers()); };
  const Tensor ratio_S = (sums_S(clipped_N * counted_N) / sums_S(counted_N).clamp_min(1)).exp();
  PolicyTerms terms;
  terms.losses_S = -ratio_S * t.advantages_S.to(ratio_S.scalar_type());
  if (t.reference_N.defined()) {
    const Tensor divergence_N = divergence_of(t);
    terms.losses_S = terms.losses_S + o.beta * ratios.mean_S(divergence_N);
    terms.divergence_N = divergence_N.detach();
  }
  tell_clipped(log_N.detach().exp(), advantage_N, o, terms);
  for (Tensor* clipped : {&terms.low_clipped, &terms.high_clipped}) *clipped = *clipped * t.mask_N;
  return terms;
}

}  // namespace

double PolicyLossOptions::least_ratio() const {
  return loss_type == PolicyLoss::gmpo ? std::exp(-epsilon) : 1 - epsilon;
}

double PolicyLossOptions::most_ratio() const {
  if (loss_type == PolicyLoss::cispo) return high();
  return loss_type == PolicyLoss::gmpo ? std::exp(high()) : 1 + high();
}

PolicyTerms policy_terms(const PolicyTokens& t, const PolicyLossOptions& o) {
  const Ratios ratios{t};
  if (o.loss_type == PolicyLoss::gmpo) return geometric_terms(ratios, o);
  const bool by_answer = o.level == RatioLevel::sequence;
  const bool clips = o.loss_type != PolicyLoss::sapo && o.loss_type != PolicyLoss::vespo;
  const Tensor log_weight_S = by_answer ? ratios.mean_S(ratios.log_ratio_N) : Tensor();
  const Tensor ratio_N = (by_answer ? ratios.as_tokens(log_weight_S) : ratios.log_ratio_N).exp();
  const bool cuts = clips && o.loss_type != PolicyLoss::cispo && o.delta;
  const Tensor counted_N = cuts ? ratio_N.clamp_max(*o.delta) : ratio_N;
  PolicyTerms terms;
  add_losses(ratios, ratio_N, counted_N, o, terms);
  if (o.off_policy_threshold)
    terms.losses_N = terms.losses_N * ratios.as_tokens(kept_S(ratios, *o.off_policy_threshold));
  if (t.learnt_N.defined()) terms.losses_N = terms.losses_N * t.learnt_N;
  if (t.reference_N.defined()) add_divergence(t, ratio_N, o, terms);
  terms.losses_N = terms.losses_N * t.mask_N;
  if (!clips) return terms;
  const Tensor shown_N = counted_N.detach();
  if (!by_answer) {
    tell_clipped(shown_N, ratios.advantage_N, o, terms);
    for (Tensor* clipped : {&terms.low_clipped, &terms.high_clipped})
      if (clipped->defined()) *clipped = *clipped * t.mask_N;
  } else {
    Tensor shown_S = log_weight_S.detach().exp();
    if (o.delta) shown_S = shown_S.clamp_max(*o.delta);
    tell_clipped(shown_S, t.advantages_S, o, terms);
  }
  return terms;
}

AnswerTerms answer_terms(const Tensor& log_ratio_S, const Tensor& advantages_S, double epsilon, double high) {
  const PolicyLossOptions options{.epsilon = epsilon, .epsilon_high = high};
  const Tensor ratio_S = log_ratio_S.exp();
  PolicyTerms told;
  tell_clipped(ratio_S.detach(), advantages_S, options, told);
  return {clipped_losses(ratio_S, ratio_S, advantages_S, options), told.low_clipped, told.high_clipped};
}

}  // namespace hone::objectives
