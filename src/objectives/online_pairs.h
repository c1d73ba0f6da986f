// What objectives share that learn from which of two answers is the better one, of answers that are made as they learn:
// by rewards, or by a program that compares them.
//
// Letters: S answers, P pairs: the two answers to a prompt, one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "objectives/answer_objective.h"
#include "objectives/pair_judge.h"

namespace hone::objectives {

struct OnlinePairOptions : JudgingOptions {
  using Base = JudgingOptions;
  JudgeOptions judge;
  std::optional<double> missing_eos_penalty;
  std::vector<double> beta{0.1};
  std::string reference;
  static constexpr auto fields() {
    using C = OnlinePairOptions;
    return std::tuple_cat(
        JudgingOptions::fields(),
        std::tuple{field("judge", &C::judge, "A program that says which of two answers is the better one."),
                   field("missing_eos_penalty", &C::missing_eos_penalty,
                         "What an answer that was cut off at max_completion_length is worth less; default: nothing.",
                         {.low = 1e-9}),
                   field("beta", &C::beta,
                         "How strongly the model is held near the reference. Several: of each epoch its own, the last "
                         "one of all that follow.",
                         config::at_least(0)),
                   field("reference", &C::reference,
                         "Folder of the reference model; default: the model as the run began with it, which below a "
                         "LoRA adapter costs no memory.")});
  }
  void check(Problems& problems) const;
  AnswerSettings settings(std::string name) const;
};
// Of each epoch its own, the last one of all that follow.
double at_epoch(const std::vector<double>& values, double epoch);
void require_no_environment(const OnlinePairOptions& options, Problems& problems);
void require_all(const std::vector<double>& values, double low, double high, const char* option, Problems& problems);

// Columns of answers: of both of a pair, how likely the first is the better one, whether it is taken to be, and whether
// anybody said so.
inline constexpr const char *kPreference = "preference", *kFirstIsChosen = "first_is_chosen", *kIsKnown = "is_known";
// Numbers of a step, scalars; on the meta device 0.
Tensor step_number(const Batch& batch, const char* name);
inline constexpr const char* kBeta = "beta";
inline constexpr const char* kPairs = "pairs";  // what losses are divided by

// A number of each answer, [S], as those of each pair's first or second one.
inline Tensor firsts(const Tensor& values_S) { return values_S.view({-1, 2}).select(1, 0); }
inline Tensor seconds(const Tensor& values_S) { return values_S.view({-1, 2}).select(1, 1); }

// How likely a batch's answers are, added up over tokens, fp64.
struct AnswerLikelihoods {
  Tensor model_S;      // a graph
  Tensor reference_S;  // without
  Tensor apart_S() const { return model_S.detach() - reference_S; }
};

class OnlinePairs : public AnswerObjective {
 public:
  OnlinePairs(const std::string& name, OnlinePairOptions options);
  Groups prepare(Group group, StepContext& context) override;
  Batch prepare_evaluation(Batch batch, StepContext& context) override;
  Sums sums(const Batch& batch) const override;

 protected:
  // Numbers of the step that loss() is to have, by step_number().
  virtual std::map<std::string, double> step_numbers(const StepContext& context) const;
  // What is learnt of them.
  virtual Group learnable(const Judged& judged) const;
  // Of answers that are made by two models, one of each to every prompt.
  std::vector<GivenAnswer> one_of_each(const Speaker& first, const Speaker& second, const std::vector<Asked>& asked,
                                       const SeedOfAnswer& seed, const StepContext& context) const;
  AnswerLikelihoods likelihoods(const Model& model, const Output& output, const Batch& batch, const Pass& pass) const;
  // The mean over pairs of which somebody said which answer is the better one.
  static void add_mean_of_known(const std::string& name, const Tensor& values_P, const Tensor& known_P,
                                LossTerms& result);
  bool has_rewards() const { return !options_.rewards.empty(); }

  const OnlinePairOptions options_;

 private:
  // Of each answer; columns of them all.
  std::map<std::string, std::vector<double>> preferences(const Judged& judged, const StepContext& context) const;
  Group made_of(Judged& judged, const StepContext& context) const;
};

}  // namespace hone::objectives
