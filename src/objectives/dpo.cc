// Direct Preference Optimization (Rafailov et al., 2023, arXiv:2305.18290): of two answers to a prompt the chosen one
// becomes likelier than the rejected one, measured by how much likelier each is than with the reference model. Other
// losses of the same numbers are chosen by loss_type.
//
// Letters: P pairs.
#include <ATen/ATen.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "objectives/answer_log_probs.h"
#include "objectives/means.h"
#include "objectives/moving_reference.h"
#include "objectives/pair_objective.h"

namespace hone::objectives {
namespace {

class Dpo final : public PairObjective {
 public:
  struct Config {
    std::vector<PairLoss> loss_type{PairLoss::sigmoid};
    std::vector<double> loss_weights;
    double beta = 0.1, label_smoothing = 0, rpo_alpha = 0, ld_alpha = 1;
    std::optional<double> discopop_tau;
    Divergence f_divergence_type = Divergence::reverse_kl;
    std::optional<double> f_alpha_divergence_coef;
    bool use_weighting = false, reference_free = false, precompute_reference = false;
    std::string reference;
    std::int64_t reference_sync_steps = 0;
    double reference_mixup_alpha = kMixupAlpha;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("loss_type", &C::loss_type,
                "What is made of how much likelier the model finds each of two answers than the reference does. Of "
                "several losses the sum is learnt, and each is logged."),
          field("loss_weights", &C::loss_weights, "Of each of loss_type; default: 1."),
          field("beta", &C::beta,
                "How strongly answers are held near the reference: small values let the model move far from it.",
                {.low = 1e-6}),
          field("label_smoothing", &C::label_smoothing,
                "Share of pairs that are taken to be the wrong way round; 0 = all are right. Of sigmoid, robust and "
                "exo_pair, which needs one.",
                {.low = 0, .high = 0.499}),
          field("discopop_tau", &C::discopop_tau,
                "How sharply discopop changes from one curve to the other; default: 0.05.", {.low = 1e-6}),
          field("rpo_alpha", &C::rpo_alpha,
                "Weight of the chosen answers' next-token loss beside the preference loss; 0 = none.", at_least(0)),
          field("ld_alpha", &C::ld_alpha,
                "What tokens count for that the longer answer of a pair has more than the other one; 1 = as much as "
                "all, 0 = nothing.",
                {.low = 0, .high = 1}),
          field("f_divergence_type", &C::f_divergence_type,
                "By which divergence the model is held near the reference: what the losses see of how much likelier "
                "an answer is."),
          field("f_alpha_divergence_coef", &C::f_alpha_divergence_coef,
                "Of alpha_divergence: 0 = forward_kl, 1 = reverse_kl; default: 0.5.", {.low = -10, .high = 10}),
          field("use_weighting", &C::use_weighting,
                "Pairs count for more the likelier both answers are to the model itself."),
          field("reference_free", &C::reference_free,
                "Compare with a reference that finds all answers equally likely, instead of a model."),
          field(
              "reference", &C::reference,
              "Folder of the reference model; default: the model as the run began with it, which below a LoRA adapter "
              "costs no memory."),
          field("precompute_reference", &C::precompute_reference,
                "Ask the reference about all pairs before the first step, keep its answers in data.cache, and free its "
                "memory; default: ask it in each step."),
          reference_sync_steps_field<C>(),
          reference_mixup_alpha_field<C>()};
    }
    bool learns(PairLoss which) const {
      return std::find(loss_type.begin(), loss_type.end(), which) != loss_type.end();
    }
    void validate(Problems& problems) const {
      std::vector<PairLoss> sorted = loss_type;
      std::sort(sorted.begin(), sorted.end());
      problems.require(!loss_type.empty(), "loss_type", "got none, expected at least one loss");
      problems.require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "loss_type",
                       "a loss is there twice");
      problems.require(loss_weights.empty() || loss_weights.size() == loss_type.size(), "loss_weights",
                       "expected as many as loss_type has losses");
      problems.require(std::all_of(loss_weights.begin(), loss_weights.end(), [](double weight) { return weight > 0; }),
                       "loss_weights", "expected numbers above 0");
      problems.require(label_smoothing == 0 || std::any_of(loss_type.begin(), loss_type.end(), smooths_labels),
                       "label_smoothing", "only with loss_type sigmoid, robust or exo_pair");
      problems.require(label_smoothing > 0 || !learns(PairLoss::exo_pair), "label_smoothing",
                       "got 0, expected above 0 with loss_type exo_pair, for instance 0.001");
      problems.require(!discopop_tau || learns(PairLoss::discopop), "discopop_tau", "only with loss_type discopop");
      problems.require(!reference_free || reference.empty(), "reference", "not together with reference_free");
      problems.require(!reference_free || !precompute_reference, "precompute_reference",
                       "not together with reference_free");
      problems.require(!reference_free || reference_sync_steps == 0, "reference_sync_steps",
                       "not together with reference_free");
      problems.require(ld_alpha == 1 || !precompute_reference, "precompute_reference",
                       "not together with ld_alpha, by which an answer counts for more or less beside another one");
      const bool other = f_divergence_type != Divergence::reverse_kl;
      problems.require(!other || std::all_of(loss_type.begin(), loss_type.end(), is_of_differences),
                       "f_divergence_type",
                       "only with loss_type sigmoid, hinge, ipo, robust, exo_pair, discopop or sigmoid_norm");
      problems.require(!other || !reference_free, "f_divergence_type", "not together with reference_free");
      problems.require(!f_alpha_divergence_coef || f_divergence_type == Divergence::alpha_divergence,
                       "f_alpha_divergence_coef", "only with f_divergence_type alpha_divergence");
      check_moving_reference(*this, problems);
      check_moving_and_precomputed(*this, problems);
    }
  };
  explicit Dpo(const Config& config) : PairObjective(settings_of(config)), config_(config) {}

 protected:
  Tensor sum_of_losses(const LogRatios& ratios, LossTerms& result) const override {  // each one's mean is told
    const PairLossOptions options{config_.beta, config_.label_smoothing, config_.discopop_tau.value_or(0.05)};
    const LogRatios scores =
        divergence_scores(config_.f_divergence_type, config_.f_alpha_divergence_coef.value_or(0.5), ratios);
    Tensor sum;
    for (std::size_t i = 0; i < config_.loss_type.size(); ++i) {
      const Tensor plain_P = pair_loss(config_.loss_type[i], scores, options);
      const Tensor loss_P = ratios.weights_P.defined() ? ratios.weights_P * plain_P : plain_P;
      if (config_.loss_type.size() > 1) add_mean(name_of(config_.loss_type[i]), loss_P.detach(), result);
      const Tensor weighted = config_.loss_weights.empty() ? loss_P.sum() : config_.loss_weights[i] * loss_P.sum();
      sum = sum.defined() ? sum + weighted : weighted;
    }
    return sum;
  }
  std::vector<std::string> further_measures() const override {
    std::vector<std::string> names;
    if (config_.loss_type.size() > 1)
      for (const PairLoss which : config_.loss_type) names.push_back(name_of(which));
    return names;
  }

 private:
  static PairSettings settings_of(const Config& config) {
    PairSettings settings{.name = "dpo", .beta = config.beta};
    if (!config.reference_free) settings.reference = config.reference;
    if (config.precompute_reference) settings.reference_first = "precompute_reference";
    settings.tail_weight = config.ld_alpha, settings.weighs_pairs = config.use_weighting;
    follow(config, kReference, settings.following);
    settings.chosen_weight = config.rpo_alpha,
    settings.chosen_term = "rpo_loss";  // Pang et al., 2024, arXiv:2404.19733
    return settings;
  }
  static std::string name_of(PairLoss which) {
    return std::string(config::enum_names<PairLoss>[static_cast<std::size_t>(which)].second) + "_loss";
  }

  Config config_;
};

}  // namespace

void register_dpo(Registries& hone) {
  hone.objectives.add<Dpo>("dpo", "Prefer one of two answers to the other, near a reference model.");
}

}  // namespace hone::objectives
