// Odds Ratio Preference Optimization (Hong et al., 2024, arXiv:2403.07691): the chosen answer is learnt as in
// fine-tuning, while its odds are raised above those of the rejected one. No reference model.
//
// Letters: P pairs.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "objectives/means.h"
#include "objectives/pair_objective.h"

namespace hone::objectives {
namespace {

class Orpo final : public PairObjective {
 public:
  struct Config {
    double beta = 0.1;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{field("beta", &C::beta,
                              "Weight of the odds ratio's loss beside the chosen answers' next-token loss; the paper "
                              "calls it lambda.",
                              {.low = 1e-6})};
    }
  };
  explicit Orpo(const Config& config)
      : PairObjective({.name = "orpo", .beta = config.beta, .per_token = true, .chosen_weight = 1}), config_(config) {}

 protected:
  Tensor sum_of_losses(const LogRatios& mean, LossTerms& result) const override {
    const Tensor log_odds_P = log_odds_ratio(mean);
    const Tensor ratio_P = at::log_sigmoid(log_odds_P);
    add_mean("log_odds_ratio", ratio_P.detach(), result);
    add_mean("log_odds_chosen", log_odds_P.detach(), result);
    return -config_.beta * ratio_P.sum();
  }
  std::vector<std::string> further_measures() const override { return {"log_odds_ratio", "log_odds_chosen"}; }

 private:
  Config config_;
};

}  // namespace

void register_orpo(Registries& hone) {
  hone.objectives.add<Orpo>("orpo", "Learn one of two answers, and raise its odds above the other's; no reference.");
}

}  // namespace hone::objectives
