// Group relative policy optimization (Shao et al., 2024, arXiv:2402.03300) and what has come of it: of a model's own
// answers to a prompt those become likelier that are worth more than the others, and the rest less likely.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "objectives/policy_objective.h"

namespace hone::objectives {

class Grpo : public PolicyObjective {
 public:
  struct Config : PolicyOptions {
    using Base = PolicyOptions;
    double beta = 0;
    PolicyLoss loss_type = PolicyLoss::dapo;
    ScaleRewards scale_rewards = ScaleRewards::group;
    AggregateRewards multi_objective_aggregation = AggregateRewards::sum_then_normalize;
    RatioLevel importance_sampling_level = RatioLevel::token;
    std::optional<double> delta, off_policy_mask_threshold;
    bool use_bias_correction_kl = true;
    double top_entropy_quantile = 1;
    double sapo_temperature_pos = 1, sapo_temperature_neg = 1.05;
    double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;
    double entropy_coef = 0;
    bool use_adaptive_entropy = false;
    double entropy_coef_min = 0, entropy_coef_max = 1, entropy_coef_delta = 0.005, entropy_target = 0.2;
    std::int64_t replay_buffer_size = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          PolicyOptions::fields(),
          std::tuple{
              field("beta", &C::beta,
                    "How strongly the model is held near a reference; 0 = not at all, and there is none.",
                    config::at_least(0)),
              field("loss_type", &C::loss_type,
                    "How answers and their tokens are weighed. dapo: all tokens of a step alike; grpo: answers alike, "
                    "each by the mean of its tokens; dr_grpo: tokens by max_completion_length; luspo: answers by "
                    "their length; cispo: as dapo, but what is clipped at epsilon_high is the weight of a token's "
                    "gradient; sapo: as grpo, with a smooth curve for clipping; vespo: as dapo, with a curve of the "
                    "whole answer's ratio; gmpo: answers alike, each by the geometric mean of its tokens' ratios, "
                    "whose logarithms are clipped at -epsilon and epsilon_high (0.4 is usual)."),
              field("scale_rewards", &C::scale_rewards,
                    "By which standard deviation rewards' differences are divided: of the group, the answers to one "
                    "prompt; of all that a step has (batch); by none."),
              field("multi_objective_aggregation", &C::multi_objective_aggregation,
                    "Of several rewards: their sum is compared within the group, or each of them before they are "
                    "added up (normalize_then_sum), so that none drowns another."),
              field("importance_sampling_level", &C::importance_sampling_level,
                    "Whether each token has a ratio of its own, or all of an answer their mean one (sequence: GSPO)."),
              field("delta", &C::delta, "The most that a ratio counts for, upwards; default: no limit.",
                    {.low = 1 + 1e-9}),
              field("off_policy_mask_threshold", &C::off_policy_mask_threshold,
                    "Answers that are worse than others are left out once their tokens have become less likely by "
                    "this on average, in nats; default: never.",
                    {.low = 1e-9}),
              field("use_bias_correction_kl", &C::use_bias_correction_kl,
                    "The divergence from the reference is weighed by the ratio, which makes its gradient unbiased."),
              field("top_entropy_quantile", &C::top_entropy_quantile,
                    "Learn only from this share of a step's tokens, those of which the model was least certain when "
                    "it gave them; 1 = all.",
                    {.low = 0, .high = 1}),
              field("sapo_temperature_pos", &C::sapo_temperature_pos,
                    "Of sapo: how sharp its curve is for good answers.", {.low = 1e-6}),
              field("sapo_temperature_neg", &C::sapo_temperature_neg, "The same for bad ones.", {.low = 1e-6}),
              field("vespo_k_pos", &C::vespo_k_pos, "Of vespo: the power of its curve for good answers.",
                    config::at_least(0)),
              field("vespo_lambda_pos", &C::vespo_lambda_pos, "And its rate.", {.low = 1e-4}),
              field("vespo_k_neg", &C::vespo_k_neg, "The power for bad ones.", config::at_least(0)),
              field("vespo_lambda_neg", &C::vespo_lambda_neg, "And the rate.", {.low = 1e-4}),
              field("entropy_coef", &C::entropy_coef,
                    "So many times the tokens' mean entropy is taken off the loss, which keeps answers various; 0 = "
                    "none."),
              field("use_adaptive_entropy", &C::use_adaptive_entropy,
                    "entropy_coef is only where it begins: each update adds entropy_coef_delta where the entropy was "
                    "at entropy_target or below, and takes it off elsewhere, where the entropy is not learnt meanwhile "
                    "(Skywork-OR1, arXiv:2505.22312)."),
              field("entropy_coef_min", &C::entropy_coef_min, "Of use_adaptive_entropy: it falls no lower."),
              field("entropy_coef_max", &C::entropy_coef_max, "And rises no higher."),
              field("entropy_coef_delta", &C::entropy_coef_delta, "By how much it moves.", config::at_least(0)),
              field("entropy_target", &C::entropy_target,
                    "The entropy that it holds up, in nats: that of the metric entropy, or of the tokens that "
                    "top_entropy_quantile leaves.",
                    config::at_least(0)),
              field("replay_buffer_size", &C::replay_buffer_size,
                    "So many prompts' answers are kept at most, those that differed most in what they were worth, and "
                    "are learnt from again where a prompt's new answers are all worth the same; 0 = none.",
                    {.low = 0, .high = 1 << 16})});
    }
    void validate(Problems& problems) const;
  };
  explicit Grpo(const Config& config);
  Sums state() const override;
  void set_state(const Sums& state) override;
  void measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const override;

 protected:
  std::vector<double> advantages(const Judged& judged, const World& world) const override;
  void add_terms(const Tokens& tokens, LossTerms& result) const override;
  double learnt_share() const override { return config_.top_entropy_quantile; }
  ReplayBuffer* replay_buffer() override { return replay_.is_wanted() ? &replay_ : nullptr; }
  bool learns_entropy() const override { return config_.entropy_coef != 0 || config_.use_adaptive_entropy; }

 private:
  LossTerm loss_term(const PolicyTerms& terms, const Tokens& tokens) const;
  void add_entropy(const Tokens& tokens, LossTerms& result) const;
  // By which entropies count now, and what they were in the last update.
  struct EntropyControl {
    double coefficient = 0, last = std::numeric_limits<double>::infinity();
  };
  void tell_clipped(const PolicyTerms& terms, const Tokens& tokens, LossTerms& result) const;

  const Config config_;
  const PolicyLossOptions loss_;
  ReplayBuffer replay_;
  mutable EntropyControl entropy_;  // of measure_step(), which looks at updates one after another
};

}  // namespace hone::objectives
