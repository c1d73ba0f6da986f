// What objectives share that learn from a model's own answers: drawing and judging them, what is logged of both.
//
// Letters: B batch, T time, N tokens (B * T), S answers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/reward.h"
#include "objectives/advantages.h"
#include "objectives/environment.h"
#include "objectives/rollouts.h"

namespace hone::objectives {

// How answers are drawn and told.
struct AnsweringOptions : SamplingOptions {
  using Base = SamplingOptions;
  bool log_completions = false;
  std::int64_t num_completions_to_print = 0;
  static constexpr auto telling_fields() {
    using C = AnsweringOptions;
    return std::tuple{field("log_completions", &C::log_completions,
                            "Write the answers of each step that is logged (trainer.log_every) down in "
                            "completions.jsonl in the run folder, with their prompts and what they are worth.",
                            OnResume::record),
                      field("num_completions_to_print", &C::num_completions_to_print,
                            "With log_completions: so many of them in the log as well.", config::at_least(0),
                            OnResume::record)};
  }
  static constexpr auto fields() { return std::tuple_cat(SamplingOptions::fields(), telling_fields()); }
  void check(Problems& problems) const;
};

struct JudgingOptions : AnsweringOptions {
  using Base = AnsweringOptions;
  std::vector<config::Choice<Reward>> rewards = {};
  std::vector<double> reward_weights = {};
  EnvironmentOptions environment = {};
  static constexpr auto fields() {
    using C = JudgingOptions;
    return std::tuple_cat(SamplingOptions::fields(),
                          std::tuple{field("rewards", &C::rewards,
                                           "What answers are worth, by one or several rewards, which are added up."),
                                     field("reward_weights", &C::reward_weights, "Of each of rewards; default: 1."),
                                     field("environment", &C::environment,
                                           "Answers of several turns, and a program that they are spoken with.")},
                          telling_fields());
  }
  void check(Problems& problems) const;  // but whether there are rewards
};
void require_rewards(const JudgingOptions& options, Problems& problems);

// What losses are divided by.
inline constexpr const char *kAnswers = "answers", *kAnswerTokens = "answer_tokens";
// Columns of answers: whether one was finished, what it is worth; tokens' numbers of the reference and of the model as
// it was when the answers were given.
inline constexpr const char *kComplete = "complete", *kReward = "reward", *kReferenceTokens = "reference_log_probs",
                            *kOldLogProbs = "old_log_probs";

// Of what prepare() has put there; a pass that only counts memory has nothing.
Tensor column_of(const Batch& batch, const char* name);
Tensor maybe_tokens(const Batch& batch, const char* name);  // [N]; undefined: it is not there
// Numbers of the answers of one micro-batch, as a column of its documents; `all` has those of all of them, in order.
Tensor part_of(const std::vector<double>& all, std::size_t begin, const Batch& batch);

// How answers are asked for, and what is compared with what.
struct AnswerSettings {
  std::string name;                           // of the objective
  std::int64_t each = 1, each_eval = 1;       // answers to a prompt
  std::optional<std::string> reference = {};  // folder; "": the model as the run began; nothing: no reference
  std::map<std::string, Following> following = {};
  double temperature = 1;                          // where it is learnt how likely answers were
  std::optional<double> missing_eos_penalty = {};  // of answers that were cut off
};

class AnswerObjective : public Objective {
 public:
  AnswerObjective(AnswerSettings settings, JudgingOptions drawing);
  Needs needs() const override;
  void check(const Model& model) const override;
  std::vector<std::string> evaluations() const override { return {}; }
  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override;
  void measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const override;

 protected:
  // A step's answers and what they are worth.
  struct Judged {
    Rollout rollout;
    std::vector<std::vector<double>> rewards;           // [reward][answer]; NaN: it says nothing
    std::vector<double> sums;                           // of each answer; none where there are no rewards
    double batches = 0, learnt_tokens = 0;              // of the step, over all ranks; the former: micro-batches
    std::vector<double> divergence;                     // of each answer from the reference, where advantages need it
    std::map<std::string, std::vector<double>> counts;  // of each answer, where there is an environment
    std::map<std::string, std::vector<double>> told;    // of each answer, for completions.jsonl alone
    bool evaluation = false;
  };
  // Of a step's prompts, or of a held-out batch's. draw: how often some were drawn in the step before.
  Judged judged(const Group& group, const StepContext& context, std::int64_t draw = 0) const;
  Judged judged_for_evaluation(const Batch& batch, const StepContext& context) const;
  // Tests have them from elsewhere.
  virtual std::vector<GivenAnswer> answers_to(const std::vector<Asked>& asked, std::int64_t each,
                                              const SeedOfAnswer& seed, const StepContext& context,
                                              Environment& environment) const;
  // What loss() has of each answer.
  std::map<std::string, std::vector<double>> columns_of(const Judged& judged) const;
  std::vector<std::string> measures_of_answers() const;
  void warn(const std::string& text) { warnings_.warning(text); }  // not again and again
  void add_answer_means(const Batch& batch, LossTerms& result) const;
  // For measure_step(), which has no batch, and completions.jsonl.
  void tell(const Judged& judged, const StepContext& context);
  // The first half of it, of answers that are not all learnt from: with the means that are else those of what is.
  void tell_given(const Judged& judged, const World& world);
  void tell_lines(const Judged& judged, const StepContext& context) const;  // the other half

  // Of the tokens that are learnt, [N]; statistics_N4, entropy_N (with a graph): null, they are not wanted.
  Tensor log_probs(const CausalLm& model, const Output& output, const Batch& batch, const Pass& pass,
                   Tensor* statistics_N4, Tensor* entropy_N = nullptr) const;
  // By a model that is asked for it, [B, T].
  Tensor log_probs_by(const RoleModel& role, const Batch& batch, Tensor* entropy_BT = nullptr) const;
  RoleModel reference(const Resources& resources) const;

  const AnswerSettings settings_;
  const JudgingOptions drawing_;
  const std::vector<double> weights_;   // of the rewards
  std::map<std::string, Metric> told_;  // of the step that is being made

 private:
  Judged judged(const Group& group, std::int64_t each, const SeedOfAnswer& seed, const StepContext& context) const;
  bool has_environment() const { return !drawing_.environment.command.empty(); }
  std::map<std::string, Moments> tell_moments(const Judged& judged, const World& world);
  void warn_where_alike(const Moments& alike, const World& world);
  bool counts_outcomes() const;  // whether a reward goes by what the environment says
  void judge(Judged& judged, const StepContext& context) const;
  void add_turns(const Batch& batch, LossTerms& result) const;
  std::string reward_name(std::size_t which) const;

  std::vector<std::unique_ptr<Reward>> rewards_;
  std::vector<std::string> reward_names_;
  log::Limiter warnings_;
  int alike_steps_ = 0;  // the last ones, of which no answer was rewarded more than another to the same prompt
};

}  // namespace hone::objectives
