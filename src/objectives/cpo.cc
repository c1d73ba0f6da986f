// Contrastive Preference Optimization (Xu et al., 2024, arXiv:2401.08417): DPO with a reference that finds all answers
// equally likely, beside fine-tuning on the chosen ones. With the mean of an answer's tokens and a margin it is SimPO
// (Meng et al., 2024, arXiv:2405.14734), with another shape of reward AlphaPO (Gupta et al., 2025, arXiv:2501.03884).
//
// Letters: P pairs.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "objectives/pair_objective.h"

namespace hone::objectives {

enum class CpoLoss { sigmoid, hinge, ipo, simpo };

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::CpoLoss> =
    std::to_array<std::pair<hone::objectives::CpoLoss, std::string_view>>(
        {{hone::objectives::CpoLoss::sigmoid, "sigmoid"},
         {hone::objectives::CpoLoss::hinge, "hinge"},
         {hone::objectives::CpoLoss::ipo, "ipo"},
         {hone::objectives::CpoLoss::simpo, "simpo"}});

namespace hone::objectives {
namespace {

bool is_per_token(CpoLoss which) { return which == CpoLoss::ipo || which == CpoLoss::simpo; }

class Cpo final : public PairObjective {
 public:
  struct Config {
    CpoLoss loss_type = CpoLoss::sigmoid;
    double beta = 0.1, label_smoothing = 0, cpo_alpha = 1, alpha = 0;
    std::optional<double> simpo_gamma;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("loss_type", &C::loss_type,
                "What is made of how likely the model finds each of two answers: sigmoid and hinge of the answer as a "
                "whole, ipo and simpo of its mean token."),
          field("beta", &C::beta,
                "What log-probabilities are multiplied by; with simpo 2 to 2.5, of ipo the inverse "
                "of twice the margin.",
                {.low = 1e-6}),
          field("label_smoothing", &C::label_smoothing,
                "Share of pairs that are taken to be the wrong way round; 0 = all are right. Of sigmoid and simpo.",
                {.low = 0, .high = 0.499}),
          field("cpo_alpha", &C::cpo_alpha,
                "Weight of the chosen answers' next-token loss beside the preference loss; 0 = none, as in SimPO.",
                at_least(0)),
          field("simpo_gamma", &C::simpo_gamma,
                "By how much the chosen answer's reward is to be the higher one, with simpo; default: 0.5.",
                at_least(0)),
          field("alpha", &C::alpha,
                "Of a mean token's probability p, (1 - p^-alpha) / alpha is rewarded instead of log p (AlphaPO); above "
                "0 unlikely answers count for more, below 0 for less; 0 = log p. Of ipo and simpo.",
                {.low = -2, .high = 2})};
    }
    void validate(Problems& problems) const {
      problems.require(label_smoothing == 0 || loss_type == CpoLoss::sigmoid || loss_type == CpoLoss::simpo,
                       "label_smoothing", "only with loss_type sigmoid or simpo");
      problems.require(!simpo_gamma || loss_type == CpoLoss::simpo, "simpo_gamma", "only with loss_type simpo");
      problems.require(alpha == 0 || is_per_token(loss_type), "alpha",
                       "only with loss_type ipo or simpo: powers of a whole answer's probability have no bounds");
    }
  };
  explicit Cpo(const Config& config) : PairObjective(settings_of(config)), config_(config) {}

 protected:
  Tensor sum_of_losses(const LogRatios& ratios, LossTerms&) const override {
    const bool simpo = config_.loss_type == CpoLoss::simpo;
    const PairLossOptions options{.beta = config_.beta,
                                  .label_smoothing = config_.label_smoothing,
                                  .target_margin = simpo ? config_.simpo_gamma.value_or(0.5) : 0};
    const PairLoss which = config_.loss_type == CpoLoss::hinge ? PairLoss::hinge
                           : config_.loss_type == CpoLoss::ipo ? PairLoss::ipo
                                                               : PairLoss::sigmoid;
    return pair_loss(which, ratios, options).sum();
  }

 private:
  static PairSettings settings_of(const Config& config) {
    return {.name = "cpo",
            .beta = config.beta,
            .per_token = is_per_token(config.loss_type),
            .power = config.alpha,
            .chosen_weight = config.cpo_alpha};
  }

  Config config_;
};

}  // namespace

void register_cpo(Registries& hone) {
  hone.objectives.add<Cpo>("cpo", "Prefer one of two answers to the other without a reference model: CPO, SimPO.");
}

}  // namespace hone::objectives
