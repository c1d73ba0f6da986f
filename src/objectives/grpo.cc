// GRPO's advantages and losses.
//
// Letters: N tokens, S answers.
#include "objectives/grpo.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "hone/registry.h"
#include "objectives/means.h"
#include "tensor/by_document.h"

namespace hone::objectives {
namespace {

constexpr const char *kActiveEntropy = "entropy/active", *kCoefficient = "entropy_coef",
                     *kLastEntropy = "last_entropy";

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
  const auto not_geometric = [&](bool as_usual, const char* option) {
    problems.require(loss_type != PolicyLoss::gmpo || as_usual, option, "not with loss_type gmpo");
  };
  not_geometric(importance_sampling_level == none.importance_sampling_level, "importance_sampling_level");
  not_geometric(!delta, "delta");
  not_geometric(!off_policy_mask_threshold, "off_policy_mask_threshold");
  not_geometric(use_bias_correction_kl, "use_bias_correction_kl");
  problems.require(
      multi_objective_aggregation == AggregateRewards::sum_then_normalize || scale_rewards == ScaleRewards::group,
      "scale_rewards", "not with multi_objective_aggregation normalize_then_sum, which scales twice");
  const auto adaptive = [&](const char* option, double value, double otherwise) {
    problems.require(use_adaptive_entropy || value == otherwise, option, "only with use_adaptive_entropy");
  };
  adaptive("entropy_coef_min", entropy_coef_min, none.entropy_coef_min);
  adaptive("entropy_coef_max", entropy_coef_max, none.entropy_coef_max);
  adaptive("entropy_coef_delta", entropy_coef_delta, none.entropy_coef_delta);
  adaptive("entropy_target", entropy_target, none.entropy_target);
  problems.require(replay_buffer_size == 0 || environment.command.empty(), "replay_buffer_size",
                   "not with environment, whose turns are not kept");
  problems.require(entropy_coef_min <= entropy_coef_max, "entropy_coef_min", "above entropy_coef_max");
}

Grpo::Grpo(const Config& config)
    : PolicyObjective("grpo", config, config.beta),
      config_(config),
      loss_(loss_of(config)),
      replay_(config.replay_buffer_size) {
  entropy_.coefficient = config.entropy_coef;
}

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
  if (learns_entropy()) add_entropy(tokens, result);
  if (terms.divergence_N.defined()) add_masked_mean("kl", terms.divergence_N, tokens.mask_N, result);
  if (tokens.training) tell_clipped(terms, tokens, result);
}

// The mean over tokens that advantages act on, whatever answers and tokens are weighed by in the loss besides.
void Grpo::add_entropy(const Tokens& tokens, LossTerms& result) const {
  const Tensor active_N = tokens.learnt_N.defined() ? tokens.mask_N * tokens.learnt_N : tokens.mask_N;
  const Tensor sum = (tokens.entropy_N * active_N).sum();
  const bool counts = !config_.use_adaptive_entropy || entropy_.last <= config_.entropy_target;
  result.terms.back().name = "policy_loss";
  result.terms.push_back({"entropy_loss", sum * (counts ? -entropy_.coefficient : 0.0), kActiveTokens});
  if (tokens.learnt_N.defined()) result.means.push_back({kActiveEntropy, sum.detach(), active_N.sum()});
}

void Grpo::measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const {
  PolicyObjective::measure_step(amounts, metrics);
  if (!learns_entropy()) return;
  const auto found = metrics.find(learnt_share() < 1 ? kActiveEntropy : "entropy");
  if (config_.use_adaptive_entropy && found != metrics.end() && found->second.weight > 0) {
    const double now = found->second.sum / found->second.weight, delta = config_.entropy_coef_delta;
    entropy_.coefficient = now <= config_.entropy_target
                               ? std::min(entropy_.coefficient + delta, config_.entropy_coef_max)
                               : std::max(entropy_.coefficient - delta, config_.entropy_coef_min);
    entropy_.last = now;
  }
  metrics["entropy_coef"] = {entropy_.coefficient, 1};
}

Sums Grpo::state() const {
  Sums state = replay_.state();
  if (!config_.use_adaptive_entropy) return state;
  state[kCoefficient] = entropy_.coefficient, state[kLastEntropy] = entropy_.last;
  return state;
}

void Grpo::set_state(const Sums& state) {
  replay_.set_state(state);
  if (!config_.use_adaptive_entropy || !state.contains(kCoefficient) || !state.contains(kLastEntropy)) return;
  entropy_ = {state.at(kCoefficient), state.at(kLastEntropy)};
}

void Grpo::tell_clipped(const PolicyTerms& terms, const Tokens& tokens, LossTerms& result) const {
  const bool of_tokens = config_.importance_sampling_level == RatioLevel::token;
  const auto add = [&](const std::string& name, const Tensor& values) {
    of_tokens ? add_masked_mean(name, values, tokens.mask_N, result) : add_mean(name, values, result);
  };
  if (terms.weights_S.defined()) add_mean("vespo/phi_seq_mean", terms.weights_S, result);
  if (config_.loss_type == PolicyLoss::cispo) return add("cispo_clip_ratio", terms.high_clipped);
  if (!terms.low_clipped.defined()) return;
  const auto by_answer = [&](const Tensor& clipped) {  // NaN: no token
    const auto sums_of = [&](const Tensor& values_N) {
      return sums_by_document(values_N, tokens.documents_N, tokens.answers());
    };
    return of_tokens ? sums_of(clipped) / sums_of(tokens.mask_N) : clipped;
  };
  add_extreme("clip_ratio/low_min", by_answer(terms.low_clipped), LogMode::min, result);
  add_extreme("clip_ratio/high_max", by_answer(terms.high_clipped), LogMode::max, result);
  add("clip_ratio/low_mean", terms.low_clipped);
  add("clip_ratio/high_mean", terms.high_clipped);
  add("clip_ratio/region_mean", terms.low_clipped + terms.high_clipped);
}

LossTerm Grpo::loss_term(const PolicyTerms& terms, const Tokens& tokens) const {
  switch (config_.loss_type) {
    case PolicyLoss::gmpo:
      return {"loss", terms.losses_S.sum(), kAnswers};
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
