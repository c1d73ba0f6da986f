// What objectives share that learn from a model's own answers: drawing and judging them, what is logged of both.
//
// Letters: B batch, T time, N tokens (B * T), S answers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/reward.h"
#include "objectives/advantages.h"
#include "objectives/environment.h"
#include "objectives/moving_reference.h"
#include "objectives/policy_losses.h"
#include "objectives/rollouts.h"

namespace hone::objectives {

struct PolicyOptions : SamplingOptions {
  using Base = SamplingOptions;
  std::vector<config::Choice<Reward>> rewards;
  std::vector<double> reward_weights;
  EnvironmentOptions environment;
  std::int64_t num_iterations = 1, num_minibatches = 1;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;
  std::string reference;
  std::int64_t reference_sync_steps = 0;
  double reference_mixup_alpha = kMixupAlpha;
  bool mask_truncated_completions = false;
  static constexpr auto fields() {
    using C = PolicyOptions;
    return std::tuple_cat(
        SamplingOptions::fields(),
        std::tuple{
            field("rewards", &C::rewards, "What answers are worth, by one or several rewards, which are added up."),
            field("reward_weights", &C::reward_weights, "Of each of rewards; default: 1."),
            field("environment", &C::environment, "Answers of several turns, and a program that they are spoken with."),
            field("num_iterations", &C::num_iterations,
                  "How often a step's answers are learnt from, each time with updates of the weights.",
                  config::at_least(1)),
            field("num_minibatches", &C::num_minibatches,
                  "Into so many updates the micro-batches of a step are dealt out; 1 = one for all of them.",
                  config::at_least(1)),
            field(
                "epsilon", &C::epsilon,
                "How far an answer's likelihood may move from what it was when it was given, as a share of it, before "
                "there is nothing more to gain.",
                {.low = 1e-9, .high = 1}),
            field("epsilon_high", &C::epsilon_high, "The same upwards; default: epsilon.", {.low = 1e-9}),
            field("reference", &C::reference,
                  "Folder of the reference model; default: the model as the run began with it, which below a LoRA "
                  "adapter costs no memory."),
            reference_sync_steps_field<C>(),
            reference_mixup_alpha_field<C>(),
            field("mask_truncated_completions", &C::mask_truncated_completions,
                  "Answers that were cut off at max_completion_length are not learnt, though they count in the "
                  "comparison.")});
  }
  void check(double beta, Problems& problems) const;
};

// What losses are divided by.
inline constexpr const char *kAnswers = "answers", *kAnswerTokens = "answer_tokens";

class PolicyObjective : public Objective {
 public:
  // beta: how strongly the model is held near a reference; 0: there is none.
  PolicyObjective(std::string name, PolicyOptions options, double beta);
  Needs needs() const override;
  void check(const Model& model) const override;
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override;
  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override;
  Groups prepare(Group group, StepContext& context) override;
  Batch prepare_evaluation(Batch batch, StepContext& context) override;
  Sums sums(const Batch& batch) const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;
  void measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const override;

 protected:
  // A step's answers and what they are worth.
  struct Judged {
    Rollout rollout;
    std::vector<std::vector<double>> rewards;  // [reward][answer]; NaN: it says nothing
    std::vector<double> sums;                  // of each answer
    double batches = 0;                        // micro-batches of the step, over all ranks
    std::vector<double> divergence;            // of each answer from the reference, where advantages need it
    std::map<std::string, std::vector<double>> counts;  // of each answer, where there is an environment
    bool evaluation = false;
  };
  struct Tokens : PolicyTokens {
    bool training = true;  // ratios are 1 otherwise
  };
  virtual std::vector<double> advantages(const Judged& judged, const World& world) const = 0;
  // Adds the loss, and what else is told of it.
  virtual void add_terms(const Tokens& tokens, LossTerms& result) const = 0;
  // What the model was when the answers were given, and the reference, have to be known before there are advantages.
  virtual bool judges_by_divergence() const { return false; }
  virtual bool always_knows_old() const { return false; }
  // Of all tokens of a step's answers the share that advantages act on: those of most entropy when they were given.
  virtual double learnt_share() const { return 1; }
  virtual std::vector<std::string> further_measures() const { return {}; }
  // Tests have them from elsewhere.
  virtual std::vector<GivenAnswer> answers_to(const std::vector<Asked>& asked, std::int64_t each,
                                              const SeedOfAnswer& seed, const StepContext& context,
                                              Environment& environment) const;

  const PolicyOptions options_;
  const double beta_;
  const std::vector<double> weights_;  // of the rewards

 private:
  Judged judged(const Group& group, std::int64_t each, const SeedOfAnswer& seed, const StepContext& context,
                bool evaluation) const;
  Groups dealt_out(const Group& learnt, double batches, const World& world) const;
  bool has_environment() const { return !options_.environment.command.empty(); }
  bool counts_outcomes() const;  // whether a reward goes by what the environment says
  void judge(Judged& judged, const StepContext& context) const;
  Group learnable(Judged& judged, const StepContext& context) const;
  Tensor log_probs(const CausalLm& model, const Output& output, const Batch& batch, const Pass& pass,
                   Tensor* statistics_N4) const;
  Tensor log_probs_by(const RoleModel& role, const Batch& batch, Tensor* entropy_BT = nullptr) const;
  void choose_tokens(Group& group, const std::vector<Tensor>& entropies, const World& world) const;
  void add_turns(const Batch& batch, LossTerms& result) const;
  void tell(const Judged& judged, const World& world);
  std::string reward_name(std::size_t which) const;

  const std::string name_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  std::vector<std::string> reward_names_;
  log::Limiter warnings_;
  std::map<std::string, Metric> told_;  // of the step that is being made
};

}  // namespace hone::objectives
