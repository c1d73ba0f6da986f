// Direct Preference Optimization (Rafailov et al., 2023, arXiv:2305.18290): of two answers to a prompt the chosen one
// becomes likelier than the rejected one, measured by how much likelier each is than with the reference model.
//
// Letters: B batch, T time, N tokens (B * T), S documents, P pairs.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "ops/log_probs.h"
#include "tensor/host.h"
#include "tensor/pairs.h"

namespace hone::objectives {
namespace {

constexpr const char *kReference = "reference", *kReferenceLogProbs = "reference_log_probs";

class Dpo final : public Objective {
 public:
  struct Config {
    double beta = 0.1, label_smoothing = 0, rpo_alpha = 0;
    bool reference_free = false, precompute_reference = false;
    std::string reference;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("beta", &C::beta,
                "How strongly answers are held near the reference: small values let the model move far from it.",
                {.low = 1e-6}),
          field("label_smoothing", &C::label_smoothing,
                "Share of pairs that are taken to be the wrong way round; 0 = all are right.",
                {.low = 0, .high = 0.499}),
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
    void validate(Problems& problems) const {
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
    const Tensor ratio_S = config_.reference_free
                               ? log_prob_S
                               : log_prob_S - batch.extra.at(kReferenceLogProbs).to(at::kDouble);
    const Tensor reward_S = config_.beta * ratio_S;
    const Tensor chosen_P = reward_S.index_select(0, pairs.chosen_P),
                 rejected_P = reward_S.index_select(0, pairs.rejected_P), margin_P = chosen_P - rejected_P;
    const double wrong = config_.label_smoothing;
    Tensor loss_P = (1 - wrong) * -at::log_sigmoid(margin_P);
    if (wrong > 0) loss_P = loss_P - wrong * at::log_sigmoid(-margin_P);
    LossTerms result;
    result.terms.push_back({config_.rpo_alpha > 0 ? "dpo_loss" : "loss", loss_P.sum(), "pairs"});
    if (config_.rpo_alpha > 0) {  // RPO (Pang et al., 2024, arXiv:2404.19733)
      const Tensor nll = -log_prob_S.index_select(0, pairs.chosen_P).sum();
      result.terms.push_back({"rpo_loss", config_.rpo_alpha * nll, "chosen_tokens"});
      result.means.push_back({"nll_loss", nll.detach(), on_chosen(batch.weight_BT.flatten(), batch).sum()});
    }
    add_rewards(chosen_P.detach(), rejected_P.detach(), result);
    add_of_pairs("logps", log_prob_S.detach(), pairs, result);
    add_of_tokens(tokens.statistics_N4, batch, result);
    return result;
  }

 private:
  static Tensor of_documents(const ops::TokenLogProbs& tokens, const Batch& batch) {
    return sums_by_document(tokens.log_probs_N * batch.weight_BT.flatten().to(tokens.log_probs_N.scalar_type()), batch);
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
  static void add_of_tokens(const Tensor& statistics_N4, const Batch& batch, LossTerms& result) {
    const Pairs pairs = pairs_of(batch);
    const Tensor count_S = sums_by_document(batch.labels_BT.flatten().ne(-100).to(statistics_N4.scalar_type()), batch);
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
