// Proximal policy optimization (Schulman et al., 2017, arXiv:1707.06347) of a language model's answers (Ziegler et al.,
// 2019, arXiv:1909.08593), as TRL's PPOTrainer has it: tokens are actions, and a second model, which is trained with
// the first, says what an answer is expected to be worth at each of them.
//
// Letters: B batch, T time, N tokens (B * T).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "objectives/answer_objective.h"
#include "objectives/gae.h"

namespace hone::objectives {

class Ppo : public AnswerObjective {
 public:
  struct Config : JudgingOptions {
    using Base = JudgingOptions;
    std::int64_t num_generations = 1;
    std::optional<std::int64_t> num_generations_eval = {};
    std::int64_t num_ppo_epochs = 4, num_mini_batches = 1;
    double kl_coef = 0.05, cliprange = 0.2, cliprange_value = 0.2, vf_coef = 0.1, gamma = 1, lam = 0.95;
    KlEstimator kl_estimator = KlEstimator::k1;
    bool whiten_rewards = false;
    std::optional<double> missing_eos_penalty;
    std::string reference, value_model;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          JudgingOptions::fields(),
          std::tuple{
              field("num_generations", &C::num_generations, "Answers to each prompt.", config::at_least(1)),
              field("num_generations_eval", &C::num_generations_eval,
                    "The same in evaluations; default: num_generations.", config::at_least(1)),
              field("num_ppo_epochs", &C::num_ppo_epochs, "How often a step's answers are learnt from.",
                    config::at_least(1)),
              field("num_mini_batches", &C::num_mini_batches,
                    "Into so many updates the micro-batches of a step are dealt out, each time; 1 = one for all of "
                    "them.",
                    config::at_least(1)),
              field("kl_coef", &C::kl_coef,
                    "What a token is worth less for each nat that it is likelier than with the reference; 0 = nothing.",
                    config::at_least(0)),
              field("cliprange", &C::cliprange,
                    "How far a token's likelihood may move from what it was when it was said, as a share of it, before "
                    "there is nothing more to gain.",
                    {.low = 1e-9, .high = 1}),
              field("cliprange_value", &C::cliprange_value,
                    "How far what an answer is expected to be worth may move in a step.", {.low = 1e-9}),
              field("vf_coef", &C::vf_coef, "Weight of the value model's loss; its own learning rate, so to say.",
                    {.low = 1e-9}),
              field("gamma", &C::gamma, "What is worth something a token later counts for so much of it.",
                    {.low = 0, .high = 1}),
              field("lam", &C::lam,
                    "Lambda of advantages: 0 = what the value model expects after the next token, 1 = what came of all "
                    "that followed.",
                    {.low = 0, .high = 1}),
              field("kl_estimator", &C::kl_estimator,
                    "Of a token: k1, by how much likelier it is than with the reference; k3, never below 0."),
              field("whiten_rewards", &C::whiten_rewards,
                    "Divide what tokens are worth by its standard deviation over the step."),
              field("missing_eos_penalty", &C::missing_eos_penalty,
                    "What an answer that was cut off at max_completion_length is worth less; default: nothing.",
                    {.low = 1e-9}),
              field("reference", &C::reference,
                    "Folder of the reference model; default: the model as the run began with it, which below a LoRA "
                    "adapter costs no memory."),
              field(
                  "value_model", &C::value_model,
                  "Folder of the model that the value model begins as, which is trained in full beside the model; it "
                  "is given a head of one label where it has none. Default: that of the first reward that is a model, "
                  "else the model itself.")});
    }
    void validate(Problems& problems) const;
  };
  explicit Ppo(const Config& config);
  Needs needs() const override;
  std::optional<std::vector<std::string>> measures() const override;
  Groups prepare(Group group, StepContext& context) override;
  Batch prepare_evaluation(Batch batch, StepContext& context) override;
  Sums sums(const Batch& batch) const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;
  void measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const override;

 private:
  Group learnable(Judged& judged, const StepContext& context) const;
  Tensor values_before(const Model& model, const Batch& batch) const;
  void add_policy_loss(const Tensor& log_probs_N, const Batch& batch, LossTerms& result) const;
  void add_value_loss(const Model& model, const Batch& batch, Pass& pass, LossTerms& result) const;
  void tell_distance(const Batch& batch, LossTerms& result) const;
  const Config config_;
  mutable Moments ratios_;  // of a step's micro-batches so far, in all its updates, by which measure_step() goes
};

}  // namespace hone::objectives
