// Online DPO's loss.
//
// Letters: S answers, P pairs.
#include "objectives/online_dpo.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "hone/registry.h"
#include "objectives/means.h"

namespace hone::objectives {

void OnlineDpo::Config::validate(Problems& problems) const {
  check(problems);
  problems.require(loss_type != OnlineLoss::ipo || std::find(beta.begin(), beta.end(), 0) == beta.end(), "beta",
                   "got 0, expected above 0 with loss_type ipo");
}

std::optional<std::vector<std::string>> OnlineDpo::measures() const {
  std::vector<std::string> names = measures_of_answers();
  names.insert(names.end(), {"rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins",
                             "logps/chosen", "logps/rejected", "objective/kl", "objective/entropy"});
  for (std::string& name : further_measures()) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> OnlineDpo::further_measures() const {
  std::vector<std::string> names{"objective/non_score_reward", "val/contain_eos_token"};
  if (has_rewards())
    names.insert(names.end(), {"objective/scores", "objective/scores_margin", "objective/rlhf_reward"});
  return names;
}

Tensor OnlineDpo::BatchPairs::chosen(const Tensor& values_S) const {
  return at::where(first_P, firsts(values_S), seconds(values_S));
}
Tensor OnlineDpo::BatchPairs::rejected(const Tensor& values_S) const {
  return at::where(first_P, seconds(values_S), firsts(values_S));
}

// IPO (Azar et al., 2023, arXiv:2310.12036) without regard to lengths.
Tensor OnlineDpo::losses(const BatchPairs& pairs) const {
  const Tensor ratio_S = pairs.likelihoods.model_S - pairs.likelihoods.reference_S;
  const Tensor apart_P = pairs.chosen(ratio_S) - pairs.rejected(ratio_S);
  if (loss_type_ == OnlineLoss::ipo) return (apart_P - 1 / (2 * pairs.beta)).square();
  return -at::log_sigmoid(pairs.beta * apart_P);
}

void OnlineDpo::add_losses(const BatchPairs& pairs, const Tensor& dpo_P, LossTerms& result) const {
  result.terms.push_back({"loss", (dpo_P * pairs.known_P).sum(), kPairs});
}

void OnlineDpo::tell_worth(const BatchPairs& pairs, LossTerms& result) const {
  const Tensor non_score_S = -pairs.beta * pairs.likelihoods.apart_S();
  add_mean("objective/non_score_reward", non_score_S, result);
  add_mean("val/contain_eos_token", column_of(pairs.batch, kComplete), result);
  if (!has_rewards()) return;
  const Tensor reward_S = column_of(pairs.batch, kReward);
  const Tensor there_S = at::where(reward_S == reward_S, reward_S, at::zeros_like(reward_S));
  add_mean_of_some("objective/scores", reward_S, result);
  add_mean_of_some("objective/rlhf_reward", reward_S + non_score_S, result);
  add_mean_of_known("objective/scores_margin", pairs.chosen(there_S) - pairs.rejected(there_S), pairs.known_P, result);
}

LossTerms OnlineDpo::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  const BatchPairs pairs{batch, likelihoods(model, output, batch, pass), firsts(column_of(batch, kFirstIsChosen)).ne(0),
                         firsts(column_of(batch, kIsKnown)), step_number(batch, kBeta)};
  LossTerms result;
  add_losses(pairs, losses(pairs), result);
  const Tensor model_S = pairs.likelihoods.model_S.detach(), apart_S = pairs.likelihoods.apart_S();
  const auto add = [&](const std::string& name, const Tensor& values_P) {
    add_mean_of_known(name, values_P, pairs.known_P, result);
  };
  const Tensor chosen_P = pairs.beta * pairs.chosen(apart_S), rejected_P = pairs.beta * pairs.rejected(apart_S);
  add("rewards/chosen", chosen_P);
  add("rewards/rejected", rejected_P);
  add("rewards/margins", chosen_P - rejected_P);
  add("rewards/accuracies", chosen_P.gt(rejected_P).to(chosen_P.scalar_type()));
  add("logps/chosen", pairs.chosen(model_S));
  add("logps/rejected", pairs.rejected(model_S));
  add_mean("objective/kl", apart_S, result);
  add_mean("objective/entropy", -model_S, result);
  tell_worth(pairs, result);
  result.means.push_back({kBeta, pairs.beta, at::ones_like(pairs.beta)});
  add_answer_means(batch, result);
  return result;
}

void register_online_dpo(Registries& hone) {
  hone.objectives.add<OnlineDpo>("online_dpo", "Answer prompts twice, and prefer the better answer to the other one.");
}

}  // namespace hone::objectives
