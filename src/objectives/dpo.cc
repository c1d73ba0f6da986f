// Direct Preference Optimization (Rafailov et al., 2023, arXiv:2305.18290): of two answers to a prompt the chosen one
// becomes likelier than the rejected one, measured by how much likelier each is than with the reference model. Other
// losses of the same numbers are chosen by loss_type.
//
// Letters: B batch, T time, N tokens (B * T), S documents, P pairs.
#include <ATen/ATen.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "objectives/dpo_losses.h"
#include "ops/log_probs.h"
#include "tensor/host.h"
#include "tensor/pairs.h"

namespace hone::objectives {
namespace {

constexpr const char *kReference = "reference", *kReferenceLogProbs = "reference_log_probs";

class Dpo final : public Objective {
 public:
  struct Config {
    std::vector<PairLoss> loss_type{PairLoss::sigmoid};
    std::vector<double> loss_weights;
    double beta = 0.1, label_smoothing = 0, rpo_alpha = 0;
    std::optional<double> discopop_tau;
    bool reference_free = false, precompute_reference = false;
    std::string reference;
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
          field("reference_free", &C::reference_free,
                "Compare with a reference that finds all answers equally likely, instead of a model."),
          field(
              "reference", &C::reference,
              "Folder of the reference model; default: the model as the run began with it, which below a LoRA adapter "
              "costs no memory."),
          field("precompute_reference", &C::precompute_reference,
                "Ask the reference about all pairs before the first step, keep its answers in data.cache, and free its "
                "memory; default: ask it in each step.")};
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
    }
  };
  explicit Dpo(const Config& config) : config_(config) {}

  Needs needs() const override {
    Needs needs{.records = RecordKind::preference};
    if (!config_.reference_free) needs.models[kReference] = config_.reference;
    needs.models_for_numbers_alone = true;
    if (config_.precompute_reference) needs.numbers_first = "precompute_reference";
    return needs;
  }
  void check(const Model& model) const override { require_causal_lm(model, "objective dpo"); }
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override {
    std::vector<std::string> names = {"rewards/chosen", "rewards/rejected",   "rewards/accuracies", "rewards/margins",
                                      "logps/chosen",   "logps/rejected",     "logits/chosen",      "logits/rejected",
                                      "entropy",        "mean_token_accuracy"};
    if (config_.rpo_alpha > 0) names.insert(names.end(), {"dpo_loss", "nll_loss"});
    if (config_.loss_type.size() > 1)
      for (const PairLoss which : config_.loss_type) names.push_back(name_of(which));
    return names;
  }

  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override {
    if (config_.reference_free) return {};
    const RoleModel reference = resources.model(kReference);
    const CausalLm& lm = require_causal_lm(reference.model, "objective dpo: the reference");
    Pass pass(batch);
    pass.adapter = reference.adapter;
    const Output output = lm.forward(batch, pass);
    return {{kReferenceLogProbs,
             of_documents(lm.head().log_probs(output.hidden_BTD, batch.labels_BT, pass, false), batch)}};
  }

  Sums sums(const Batch& batch) const override {
    Sums amounts{{"pairs", static_cast<double>(count_pairs(batch))}};
    if (config_.rpo_alpha > 0)
      amounts["chosen_tokens"] = host::number(on_chosen(batch.weight_BT.flatten(), batch).sum(at::kDouble));
    return amounts;
  }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const ops::TokenLogProbs tokens =
        model.causal_lm()->head().log_probs(output.hidden_BTD, batch.labels_BT, pass, /*with_statistics=*/true);
    const Tensor log_prob_S = of_documents(tokens, batch);
    const Pairs pairs = pairs_of(batch);
    const Tensor ratio_S =
        config_.reference_free ? log_prob_S : log_prob_S - batch.extra.at(kReferenceLogProbs).to(at::kDouble);
    const Tensor tokens_S = sums_by_document(batch.labels_BT.flatten().ne(-100).to(at::kDouble), batch);
    const LogRatios ratios{ratio_S.index_select(0, pairs.chosen_P), ratio_S.index_select(0, pairs.rejected_P),
                           tokens_S.index_select(0, pairs.chosen_P), tokens_S.index_select(0, pairs.rejected_P)};
    LossTerms result;
    result.terms.push_back({config_.rpo_alpha > 0 ? "dpo_loss" : "loss", sum_of_losses(ratios, result), "pairs"});
    if (config_.rpo_alpha > 0) {  // RPO (Pang et al., 2024, arXiv:2404.19733)
      const Tensor nll = -log_prob_S.index_select(0, pairs.chosen_P).sum();
      result.terms.push_back({"rpo_loss", config_.rpo_alpha * nll, "chosen_tokens"});
      result.means.push_back({"nll_loss", nll.detach(), on_chosen(batch.weight_BT.flatten(), batch).sum()});
    }
    add_rewards(config_.beta * ratios.chosen_P.detach(), config_.beta * ratios.rejected_P.detach(), result);
    add_of_pairs("logps", log_prob_S.detach(), pairs, result);
    add_of_tokens(tokens.statistics_N4, tokens_S, batch, result);
    return result;
  }

 private:
  static Tensor of_documents(const ops::TokenLogProbs& tokens, const Batch& batch) {
    return sums_by_document(tokens.log_probs_N * batch.weight_BT.flatten().to(tokens.log_probs_N.scalar_type()), batch);
  }

  static std::string name_of(PairLoss which) {
    return std::string(config::enum_names<PairLoss>[static_cast<std::size_t>(which)].second) + "_loss";
  }

  // Of several losses each one's mean is told.
  Tensor sum_of_losses(const LogRatios& ratios, LossTerms& result) const {
    const PairLossOptions options{config_.beta, config_.label_smoothing, config_.discopop_tau.value_or(0.05)};
    Tensor sum;
    for (std::size_t i = 0; i < config_.loss_type.size(); ++i) {
      const Tensor loss_P = pair_loss(config_.loss_type[i], ratios, options);
      if (config_.loss_type.size() > 1) add_mean(name_of(config_.loss_type[i]), loss_P.detach(), result);
      const Tensor weighted = config_.loss_weights.empty() ? loss_P.sum() : config_.loss_weights[i] * loss_P.sum();
      sum = sum.defined() ? sum + weighted : weighted;
    }
    return sum;
  }

  // Of each chosen document its sum.
  static Tensor on_chosen(const Tensor& values_N, const Batch& batch) {
    return sums_by_document(values_N, batch).index_select(0, pairs_of(batch).chosen_P);
  }

  static void add_mean(const std::string& name, const Tensor& values_P, LossTerms& result) {
    result.means.push_back({name, values_P.sum(), at::full({}, values_P.numel(), values_P.options())});
  }

  static void add_rewards(const Tensor& chosen_P, const Tensor& rejected_P, LossTerms& result) {
    add_mean("rewards/chosen", chosen_P, result);
    add_mean("rewards/rejected", rejected_P, result);
    add_mean("rewards/accuracies", (chosen_P > rejected_P).to(chosen_P.scalar_type()), result);
    add_mean("rewards/margins", chosen_P - rejected_P, result);
  }

  static void add_of_pairs(const std::string& what, const Tensor& values_S, const Pairs& pairs, LossTerms& result) {
    add_mean(what + "/chosen", values_S.index_select(0, pairs.chosen_P), result);
    add_mean(what + "/rejected", values_S.index_select(0, pairs.rejected_P), result);
  }

  // Means over answers' tokens, as TRL logs them.
  static void add_of_tokens(const Tensor& statistics_N4, const Tensor& count_S, const Batch& batch, LossTerms& result) {
    const Pairs pairs = pairs_of(batch);
    const auto of = [&](std::int64_t which) { return sums_by_document(statistics_N4.select(1, which), batch); };
    const auto add = [&](const char* name, const Tensor& sum_S, const Tensor& of_P) {
      result.means.push_back({name, sum_S.index_select(0, of_P).sum(), count_S.index_select(0, of_P).sum()});
    };
    const Tensor logits_S = of(1);
    result.means.push_back({"entropy", of(0).sum(), count_S.sum()});
    add("logits/chosen", logits_S, pairs.chosen_P);
    add("logits/rejected", logits_S, pairs.rejected_P);
    add("mean_token_accuracy", of(2), pairs.chosen_P);
  }

  Config config_;
};

}  // namespace

void register_dpo(Registries& hone) {
  hone.objectives.add<Dpo>("dpo", "Prefer one of two answers to the other, near a reference model.");
}

}  // namespace hone::objectives
