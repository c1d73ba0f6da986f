// A router by groups of experts.
#include "nn/router.h"

#include <ATen/ATen.h>

#include <vector>

#include "nn/decoding/forms.h"
#include "ops/experts.h"

namespace hone::nn {
namespace {

// DeepSeek-AI, 2024, arXiv:2412.19437, section 2.1.2: balance without a loss.
Tensor corrected(const Tensor& value, const Tensor& tokens_E, double rate) {
  return value + rate * (tokens_E.mean() - tokens_E).sign();
}

}  // namespace

GroupedRouter::GroupedRouter(std::int64_t hidden, std::int64_t experts, const Options& options, double std)
    : options_(options), weight_(parameter(options.weight, {experts, hidden}, {.std = std})) {
  if (!options.corrected) return;
  const auto update = [rate = options.correction_rate](const Tensor& value, const Tensor& seen) {
    return rate > 0 ? corrected(value, seen, rate) : value;
  };
  const std::vector<std::int64_t> row{1, experts}, plain{experts};
  correction_ =
      &buffer(options.correction, options.correction_is_row ? row : plain, {.kind = Init::Kind::zeros}, update);
}

Tensor GroupedRouter::correction() const { return correction_ ? correction_->use().flatten() : Tensor(); }

Tensor GroupedRouter::balanced(const Tensor& logits_NE, Pass& pass) const {
  const ops::Choice plain = ops::choose_experts(logits_NE, {options_.rule.per_token}, /*with_sum=*/true);
  pass.add_up(kLikeliestSlots, ops::route(plain.expert_NK, logits_NE.size(1)).slots.counts());
  return plain.probability_E;
}

ops::Choice GroupedRouter::operator()(const Tensor& x_ND, Pass& pass) const {
  const Tensor logits_NE = ops::wide_logits(x_ND, weight_.use());
  ops::Choice choice = ops::choose_by_groups(logits_NE, correction(), options_.rule, /*with_sum=*/pass.training);
  if (pass.training && options_.balances) choice.probability_E = balanced(logits_NE, pass);
  return choice;
}

void GroupedRouter::describe(RoutedForm& form) const {
  form.grouped_router_ED = weight_.use(), form.correction_E = correction();
  form.rule = options_.rule, form.per_token = options_.rule.per_token;
}

void GroupedRouter::observe(const ops::RowGroups& slots, Pass& pass) const {
  if (!correction_ || options_.correction_rate == 0) return;
  const Tensor& value = correction_->use();
  pass.observe(*correction_, slots.counts().to(value.options()).view_as(value));
}

}  // namespace hone::nn
