// GRPO's advantages and losses.
//
// Letters: N tokens, S answers.
#include "objectives/grpo.h"

#include <ATen/ATen.h>

#include "hone/registry.h"
#include "objectives/means.h"
#include "tensor/by_document.h"

namespace hone::objectives {
namespace {

PolicyLossOptions loss_of(const Grpo::Config& c) {
  return {.loss_type = c.loss_type,
          .level = c.importance_sampling_level,
          .epsilon = c.epsilon,
          .epsilon_high = c.epsilon_high,
          .delta = c.delta,
          .beta = c.beta,
          .corrects_divergence = c.use_bias_correction_kl,
          .off_policy_threshold = c.off_policy_mask_threshold,
          .sapo_temperature_pos = c.sapo_temperature_pos,
          .sapo_temperature_neg = c.sapo_temperature_neg,
          .vespo_k_pos = c.vespo_k_pos,
          .vespo_lambda_pos = c.vespo_lambda_pos,
          .vespo_k_neg = c.vespo_k_neg,
          .vespo_lambda_neg = c.vespo_lambda_neg};
}

}  // namespace

void Grpo::Config::validate(Problems& problems) const {
  check(beta, problems);
  const auto only = [&](PolicyLoss loss, const char* option, double value, double otherwise) {
    problems.require(loss_type == loss || value == otherwise, option,
                     loss == PolicyLoss::sapo ? "only with loss_type sapo" : "only with loss_type vespo");
  };
  const Config none;
  only(PolicyLoss::sapo, "sapo_temperature_pos", sapo_temperature_pos, none.sapo_temperature_pos);
  only(PolicyLoss::sapo, "sapo_temperature_neg", sapo_temperature_neg, none.sapo_temperature_neg);
  only(PolicyLoss::vespo, "vespo_k_pos", vespo_k_pos, none.vespo_k_pos);
  only(PolicyLoss::vespo, "vespo_lambda_pos", vespo_lambda_pos, none.vespo_lambda_pos);
  only(PolicyLoss::vespo, "vespo_k_neg", vespo_k_neg, none.vespo_k_neg);
  only(PolicyLoss::vespo, "vespo_lambda_neg", vespo_lambda_neg, none.vespo_lambda_neg);
  const bool smooth = loss_type == PolicyLoss::sapo || loss_type == PolicyLoss::vespo;
  const bool clips = !smooth && loss_type != PolicyLoss::cispo;  // ratios
  problems.require(!smooth || !epsilon_high, "epsilon_high", "not with loss_type sapo or vespo");
  problems.require(clips || epsilon == none.epsilon, "epsilon", "not with loss_type cispo, sapo or vespo");
  problems.require(use_bias_correction_kl || beta > 0, "use_bias_correction_kl", "only with beta above 0");
  problems.require(clips || !delta, "delta", "not with loss_type cispo, sapo or vespo");
  problems.require(loss_type != PolicyLoss::cispo || epsilon_high.has_value(), "epsilon_high",
                   "missing: what loss_type cispo clips weights at, for instance 5");
  problems.require(loss_type != PolicyLoss::vespo || importance_sampling_level == RatioLevel::token,
                   "importance_sampling_level", "not with loss_type vespo, which goes by whole answers anyway");
  problems.require(
      multi_objective_aggregation == AggregateRewards::sum_then_normalize || scale_rewards == ScaleRewards::group,
      "scale_rewards", "not with multi_objective_aggregation normalize_then_sum, which scales twice");
}

Grpo::Grpo(const Config& config)
    : PolicyObjective("grpo", config, config.beta), config_(config), loss_(loss_of(config)) {}

std::vector<double> Grpo::advantages(const Judged& judged, const World& world) const {
  return group_advantages(judged.rewards,
                          {.each = judged.rollout.each,
                           .scale = config_.scale_rewards,
                           .aggregate = config_.multi_objective_aggregation,
                           .weights = weights_},
                          world);
}

void Grpo::add_terms(const Tokens& tokens, LossTerms& result) const {
  const PolicyTerms terms = policy_terms(tokens, loss_);
  result.terms.push_back(loss_term(terms, tokens));
  if (terms.divergence_N.defined()) add_masked_mean("kl", terms.divergence_N, tokens.mask_N, result);
  if (tokens.training) tell_clipped(terms, tokens, result);
}

void Grpo::tell_clipped(const PolicyTerms& terms, const Tokens& tokens, LossTerms& result) const {
  const bool of_tokens = config_.importance_sampling_level == RatioLevel::token;
  const auto add = [&](const std::string& name, const Tensor& values) {
    of_tokens ? add_masked_mean(name, values, tokens.mask_N, result) : add_mean(name, values, result);
  };
  if (terms.weights_S.defined()) add_mean("vespo/phi_seq_mean", terms.weights_S, result);
  if (config_.loss_type == PolicyLoss::cispo) return add("cispo_clip_ratio", terms.high_clipped);
  if (!terms.low_clipped.defined()) return;
  add("clip_ratio/low_mean", terms.low_clipped);
  add("clip_ratio/high_mean", terms.high_clipped);
  add("clip_ratio/region_mean", terms.low_clipped + terms.high_clipped);
}

LossTerm Grpo::loss_term(const PolicyTerms& terms, const Tokens& tokens) const {
  switch (config_.loss_type) {
    case PolicyLoss::grpo:
    case PolicyLoss::sapo: {
      const auto by_answer = [&](const Tensor& values_N) {
        return sums_by_document(values_N, tokens.documents_N, tokens.answers());
      };
      return {"loss", (by_answer(terms.losses_N) / by_answer(tokens.mask_N).clamp_min(1)).sum(), kAnswers};
    }
    case PolicyLoss::dr_grpo:
      return {"loss", terms.losses_N.sum() / static_cast<double>(config_.max_completion_length), kAnswers};
    case PolicyLoss::luspo:
      return {"loss", terms.losses_N.sum(), kAnswers};
    default:
      return {"loss", terms.losses_N.sum(), kAnswerTokens};
  }
}

void register_grpo(Registries& hone) {
  hone.objectives.add<Grpo>("grpo", "Answer prompts, and learn from which answers are worth more than others.");
}

}  // namespace hone::objectives
