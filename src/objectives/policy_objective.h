// What objectives share that learn from a model's own answers by advantages: what answers are learnt by, and in which
// updates.
//
// Letters: B batch, T time, N tokens (B * T), S answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "objectives/answer_objective.h"
#include "objectives/moving_reference.h"
#include "objectives/policy_losses.h"
#include "objectives/replay_buffer.h"

namespace hone::objectives {

// What a loss is divided by: an update's tokens that advantages act on.
inline constexpr const char* kActiveTokens = "active_tokens";

struct PolicyOptions : JudgingOptions {
  using Base = JudgingOptions;
  std::int64_t num_generations = 8;
  std::optional<std::int64_t> num_generations_eval = {};
  std::int64_t num_iterations = 1, num_minibatches = 1;
  double epsilon = 0.2;
  std::optional<double> epsilon_high;
  std::string reference;
  std::int64_t reference_sync_steps = 0;
  double reference_mixup_alpha = kMixupAlpha;
  bool mask_truncated_completions = false;
  std::int64_t resample = 0;
  static constexpr auto fields() {
    using C = PolicyOptions;
    return std::tuple_cat(
        JudgingOptions::fields(),
        std::tuple{
            field("num_generations", &C::num_generations, "Answers to each prompt, which are compared with each other.",
                  config::at_least(2)),
            field("num_generations_eval", &C::num_generations_eval,
                  "The same in evaluations; default: num_generations.", config::at_least(1)),
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
                  "comparison."),
            field("resample", &C::resample,
                  "How often in a step further prompts are asked at most, in place of those whose answers are all "
                  "worth the same; 0 = never.",
                  {.low = 0, .high = 1000})});
  }
  void check(double beta, Problems& problems) const;
};

// A step's micro-batches, given `times` times, each time in so many updates: by their numbers over all ranks, so that
// it does not depend on how many these are; a part may have none. batches: of all ranks.
Groups dealt_out(const Group& learnt, double batches, std::int64_t updates, std::int64_t times, const World& world);

class PolicyObjective : public AnswerObjective {
 public:
  // beta: how strongly the model is held near a reference; 0: there is none.
  PolicyObjective(std::string name, PolicyOptions options, double beta);
  Needs needs() const override;
  std::optional<std::vector<std::string>> measures() const override;
  Groups prepare(Group group, StepContext& context) override;
  Batch prepare_evaluation(Batch batch, StepContext& context) override;
  Sums sums(const Batch& batch) const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;

 protected:
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
  // Null: only the step's own answers are learnt from.
  virtual ReplayBuffer* replay_buffer() { return nullptr; }
  virtual bool learns_entropy() const { return false; }  // Tokens have it then, and sums() count kActiveTokens
  virtual std::vector<std::string> further_measures() const { return {}; }

  const PolicyOptions options_;
  const double beta_;

 private:
  Group learnable(Judged& judged, const StepContext& context) const;
  // As many prompts as were asked first, of which as many as there are have answers that differ; told: of that.
  Judged with_something_to_learn(Judged first, const StepContext& context, Metrics& told) const;
  struct AskedPlace {
    std::size_t draw, prompt;
  };
  static Judged put_together(const std::vector<Judged>& draws, const std::vector<AskedPlace>& places);
  // As many prompts: where a prompt's answers teach nothing, those of a kept one; those that do are kept.
  Judged with_replayed(Judged made, ReplayBuffer& buffer, const StepContext& context, Metrics& told) const;
  void add_kept(const KeptGroup& group, const StepContext& context, Judged& to) const;
  void choose_tokens(Group& group, const std::vector<Tensor>& entropies, const World& world) const;
};

}  // namespace hone::objectives
