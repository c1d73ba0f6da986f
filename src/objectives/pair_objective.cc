// Pairs of answers: what their losses are made of, and what is logged of them.
#include "objectives/pair_objective.h"

#include <ATen/ATen.h>

#include "hone/layers.h"
#include "objectives/answer_log_probs.h"
#include "objectives/means.h"
#include "tensor/by_document.h"
#include "tensor/host.h"
#include "tensor/pairs.h"

namespace hone::objectives {
namespace {

// The chosen documents' weights of tokens.
Tensor chosen_weight_of(const Batch& batch, const Pairs& pairs) {
  return sums_by_document(batch.weight_BT.flatten(), batch).index_select(0, pairs.chosen_P).sum();
}

// Of each document: how much likelier its learnt tokens are than what the model draws, added up, without a graph (WPO:
// Zhou et al., 2024, arXiv:2406.11827, equation 2 with its alignment of tokens).
Tensor likeliness(const Model& model, const Output& output, const Batch& batch, const Pass& pass,
                  const ops::TokenLogProbs& tokens) {
  const Tensor drawn_N = log_sum_squares(model, output.hidden_BTD, batch, pass);
  return sums_by_document(tokens.log_probs_N.detach() - drawn_N, batch);
}

void add_mean_of_sides(const std::string& what, const Tensor& values_S, const Pairs& pairs, LossTerms& result) {
  add_mean(what + "/chosen", values_S.index_select(0, pairs.chosen_P), result);
  add_mean(what + "/rejected", values_S.index_select(0, pairs.rejected_P), result);
}

}  // namespace

Needs PairObjective::needs() const {
  Needs needs{.records = RecordKind::preference};
  if (settings_.reference) needs.models[kReference] = *settings_.reference;
  needs.models_are_language_models = needs.models_for_numbers_alone = true;
  needs.numbers_first = settings_.reference_first;
  needs.following = settings_.following;
  return needs;
}

void PairObjective::check(const Model& model) const { require_causal_lm(model, "objective " + settings_.name); }

std::optional<std::vector<std::string>> PairObjective::measures() const {
  std::vector<std::string> names = {"rewards/chosen", "rewards/rejected",   "rewards/accuracies", "rewards/margins",
                                    "logps/chosen",   "logps/rejected",     "logits/chosen",      "logits/rejected",
                                    "entropy",        "mean_token_accuracy"};
  if (settings_.chosen_weight > 0) names.insert(names.end(), {settings_.name + "_loss", "nll_loss"});
  for (std::string& name : further_measures()) names.push_back(std::move(name));
  return names;
}

std::map<std::string, Tensor> PairObjective::document_numbers(const Batch& batch, const Resources& resources) const {
  if (!settings_.reference) return {};
  const std::string who = "objective " + settings_.name + ": the reference";
  return {{kReferenceLogProbs, answer_log_probs(resources.model(kReference), batch, who, settings_.tail_weight)}};
}

Sums PairObjective::sums(const Batch& batch) const {
  Sums amounts{{"pairs", static_cast<double>(count_pairs(batch))}};
  if (settings_.chosen_weight > 0) amounts["chosen_tokens"] = host::number(chosen_weight_of(batch, pairs_of(batch)));
  return amounts;
}

// What a reward is beta times of.
Tensor PairObjective::rewarded(const Tensor& log_prob_S, const Tensor& tokens_S, const Batch& batch) const {
  Tensor made_S = log_prob_S;
  if (settings_.reference) made_S = made_S - batch.extra.at(kReferenceLogProbs).to(at::kDouble);
  if (settings_.per_token) made_S = made_S / tokens_S.clamp_min(1);
  if (settings_.power != 0) made_S = -(made_S * -settings_.power).expm1() / settings_.power;
  return made_S;
}

LossTerms PairObjective::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  const ops::TokenLogProbs tokens =
      model.causal_lm()->head().log_probs(output.hidden_BTD, batch.labels_BT, pass, /*with_statistics=*/true);
  const Tensor log_prob_S = of_documents(tokens, batch, settings_.tail_weight);
  const Tensor tokens_S = learnt_tokens(batch);
  const Pairs pairs = pairs_of(batch);
  const Tensor ratio_S = rewarded(log_prob_S, tokens_S, batch);
  const Tensor counted_S = settings_.per_token ? at::ones_like(tokens_S) : tokens_S;  // a mean is of one token
  LogRatios ratios{ratio_S.index_select(0, pairs.chosen_P), ratio_S.index_select(0, pairs.rejected_P),
                   counted_S.index_select(0, pairs.chosen_P), counted_S.index_select(0, pairs.rejected_P)};
  if (settings_.weighs_pairs) {
    const Tensor likely_S = likeliness(model, output, batch, pass, tokens) / tokens_S.clamp_min(1);
    ratios.weights_P = (likely_S.index_select(0, pairs.chosen_P) + likely_S.index_select(0, pairs.rejected_P)).exp();
  }
  LossTerms result;
  const bool with_chosen = settings_.chosen_weight > 0;
  result.terms.push_back({with_chosen ? settings_.name + "_loss" : "loss", sum_of_losses(ratios, result), "pairs"});
  if (with_chosen) {
    const Tensor nll = -log_prob_S.index_select(0, pairs.chosen_P).sum();
    result.terms.push_back({settings_.chosen_term, settings_.chosen_weight * nll, "chosen_tokens"});
    result.means.push_back({"nll_loss", nll.detach(), chosen_weight_of(batch, pairs)});
  }
  const Tensor chosen_P = settings_.beta * ratios.chosen_P.detach(),
               rejected_P = settings_.beta * ratios.rejected_P.detach();
  add_mean("rewards/chosen", chosen_P, result);
  add_mean("rewards/rejected", rejected_P, result);
  add_mean("rewards/accuracies", (chosen_P > rejected_P).to(chosen_P.scalar_type()), result);
  add_mean("rewards/margins", chosen_P - rejected_P, result);
  const Tensor shown_S = log_prob_S.detach();
  add_mean_of_sides("logps", settings_.per_token ? shown_S / tokens_S.clamp_min(1) : shown_S, pairs, result);
  const auto sums_of = [&](TokenStatistic which) { return statistic_S(which, tokens, batch); };
  const Tensor logits_S = sums_of(TokenStatistic::mean_logit);
  add_token_mean("entropy", sums_of(TokenStatistic::entropy), tokens_S, {}, result);
  add_token_mean("logits/chosen", logits_S, tokens_S, pairs.chosen_P, result);
  add_token_mean("logits/rejected", logits_S, tokens_S, pairs.rejected_P, result);
  add_token_mean("mean_token_accuracy", sums_of(TokenStatistic::right), tokens_S, pairs.chosen_P, result);
  return result;
}

}  // namespace hone::objectives
