// Reward models (Bradley and Terry, 1952; as for language models Ouyang et al., 2022, arXiv:2203.02155): a score for
// each of two answers, by which the chosen one is the likelier winner.
//
// Letters: P pairs.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "nn/pair_scores.h"
#include "objectives/means.h"
#include "tensor/pairs.h"

namespace hone::objectives {
namespace {

class RewardModel final : public Objective {
 public:
  struct Config {
    double center_rewards_coefficient = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("center_rewards_coefficient", &C::center_rewards_coefficient,
                              "Weight of the squared sum of a pair's scores, which keeps them around 0; 0 = none, 0.01 "
                              "is usual (Eisenstein et al., 2023, arXiv:2312.09244).",
                              at_least(0))};
    }
  };
  explicit RewardModel(const Config& config) : config_(config) {}

  Needs needs() const override { return {.records = RecordKind::preference, .labels = {"LABEL_0"}}; }
  void check(const Model& model) const override { nn::require_score(model, "objective reward"); }
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override {
    return std::vector<std::string>{"accuracy", "margin", "mean_reward"};
  }
  Sums sums(const Batch& batch) const override { return {{"pairs", static_cast<double>(count_pairs(batch))}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::PairScores scores = nn::pair_scores(model, output, batch, pass);
    const Tensor margin_P = scores.chosen_P - scores.rejected_P;
    Tensor loss_P = -at::log_sigmoid(margin_P);
    if (config_.center_rewards_coefficient > 0)
      loss_P = loss_P + config_.center_rewards_coefficient * (scores.chosen_P + scores.rejected_P).square();
    LossTerms result;
    result.terms.push_back({"loss", loss_P.sum(), "pairs"});
    add_mean("accuracy", margin_P.detach().gt(0).to(margin_P.scalar_type()), result);
    add_mean("margin", margin_P.detach(), result);
    add_mean("mean_reward", (scores.chosen_P + scores.rejected_P).detach() / 2, result);
    const Tensor all = at::cat({scores.chosen_P, scores.rejected_P}).detach();
    add_extreme("min_reward", all, LogMode::min, result);
    add_extreme("max_reward", all, LogMode::max, result);
    return result;
  }

 private:
  Config config_;
};

}  // namespace

void register_reward(Registries& hone) {
  hone.objectives.add<RewardModel>("reward", "Give each answer a score, the chosen one of a pair a higher one.");
}

}  // namespace hone::objectives
