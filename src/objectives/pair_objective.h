// What objectives that learn from pairs of answers share: log-probabilities of both, a reference, TRL's metrics.
//
// Letters: B batch, T time, N tokens (B * T), S documents, P pairs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "objectives/pair_losses.h"

namespace hone::objectives {

// How a preference is learnt, whatever its loss. A reward is beta times an answer's log-probability, less the
// reference's where there is one.
struct PairSettings {
  std::string name;  // of the objective, and of its loss where there is another term
  double beta = 0.1;
  std::optional<std::string> reference = {};  // folder; "": the model as the run began; nothing: no reference
  std::string reference_first = {};           // as Needs::numbers_first
  std::map<std::string, Following> following = {};  // likewise
  bool per_token = false;                     // log-probabilities are an answer's mean, not its sum
  double tail_weight = 1;                     // of tokens that the longer answer of a pair has more than the other
  bool weighs_pairs = false;                  // by how likely both answers are to the model (LogRatios::weights_P)
  double power = 0;                           // of the probability p that is rewarded: (1 - p^-power) / power; 0: log p
  // Beside the pairs' loss that of the chosen answers' next tokens, so many times, under this name.
  double chosen_weight = 0;
  std::string chosen_term = "sft_loss";
};

class PairObjective : public Objective {
 public:
  explicit PairObjective(PairSettings settings) : settings_(std::move(settings)) {}
  Needs needs() const override;
  void check(const Model& model) const override;
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override;
  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override;
  Sums sums(const Batch& batch) const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;

 protected:
  // The sum over the batch's pairs, a graph; metrics of it are added to `result`, and named by further_measures().
  virtual Tensor sum_of_losses(const LogRatios& ratios, LossTerms& result) const = 0;
  virtual std::vector<std::string> further_measures() const { return {}; }

 private:
  Tensor rewarded(const Tensor& log_prob_S, const Tensor& tokens_S, const Batch& batch) const;
  PairSettings settings_;
};

}  // namespace hone::objectives
