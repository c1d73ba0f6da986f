// Masked language modelling (Devlin et al., 2018): which tokens were hidden.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "objectives/divisor.h"
#include "objectives/mask_tokens.h"
#include "ops/cross_entropy.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

class MaskedLmLoss final : public Objective {
 public:
  struct Config {
    double mlm_probability = 0.15, mask_replace_prob = 0.8, random_replace_prob = 0.1;
    static constexpr auto fields() {
      using C = Config;
      constexpr config::Range share{.low = 0, .high = 1};
      return std::tuple{
          field("mlm_probability", &C::mlm_probability,
                "Share of the tokens that are to be said, special ones aside; others in each step.",
                {.low = 1e-6, .high = 1}),
          field("mask_replace_prob", &C::mask_replace_prob, "Share of these that the mask token stands for.", share),
          field("random_replace_prob", &C::random_replace_prob,
                "Share of these that another token of the vocabulary stands for; the rest is seen as it is.", share)};
    }
    void validate(Problems& problems) const {
      problems.require(mask_replace_prob + random_replace_prob <= 1 + 1e-9, "random_replace_prob",
                       "expected at most 1 - mask_replace_prob");
    }
  };
  explicit MaskedLmLoss(const Config& config)
      : masking_{config.mlm_probability, config.mask_replace_prob, config.random_replace_prob} {}

  Needs needs() const override { return {.masked_lm = true}; }
  void check(const Model& model) const override { require_masked_lm(model, "objective masked_lm"); }
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override { return std::vector<std::string>{"accuracy"}; }

  Groups prepare(Group group, StepContext& context) override {
    for (Batch& batch : group) batch = masked(batch, masking_, context, std::to_string(context.step));
    return Objective::prepare(std::move(group), context);
  }
  // The same tokens in every evaluation.
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    return masked(batch, masking_, context, "evaluation");
  }

  bool takes_context() const override { return true; }
  Sums sums(const Batch& batch) const override { return {{kPer, host::number(batch.weight_BT.sum(at::kDouble))}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const MaskedLm& lm = *model.masked_lm();
    Tensor hidden = output.hidden_BTD, labels = batch.labels_BT, weight = batch.weight_BT;
    // What nobody asks for is not computed. Where masked() was not called, all tokens are asked.
    if (const auto places = batch.extra.find(kHiddenPlaces); places != batch.extra.end()) {
      hidden = hidden.flatten(0, 1).index_select(0, places->second);
      labels = labels.flatten().index_select(0, places->second);
      weight = weight.flatten().index_select(0, places->second);
    }
    ops::CrossEntropyOptions options;
    options.divisor = divisor_of(pass, kPer);
    ops::LossSums measured;
    LossTerms result;
    result.terms.push_back(
        {"loss", lm.mask_head().cross_entropy(lm.for_mask_head(hidden, pass), labels, weight, pass, options, &measured),
         kPer});
    result.means.push_back({"accuracy", measured.right, measured.weight});
    return result;
  }

 private:
  static constexpr const char* kPer = "targets";
  Masking masking_;
};

}  // namespace

void register_masked_lm(Registries& hone) {
  hone.objectives.add<MaskedLmLoss>("masked_lm", "Say which tokens were hidden, of a text that is seen whole (BERT).");
}

}  // namespace hone::objectives
