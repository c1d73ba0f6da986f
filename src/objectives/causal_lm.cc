// Next-token prediction: token-weighted cross-entropy of every supervised position.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "nn/draw_labels.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

class CausalLmLoss final : public Objective {
 public:
  struct Config {
    double label_smoothing = 0, z_loss = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("label_smoothing", &C::label_smoothing,
                "Share of each target that is spread over the whole vocabulary.", {.low = 0, .high = 0.999}),
          field("z_loss", &C::z_loss, "Weight of the squared log-normaliser, which keeps logits near zero; 0 = off.",
                at_least(0))};
    }
  };
  explicit CausalLmLoss(const Config& config) : options_{config.label_smoothing, config.z_loss} {}

  void check(const Model& model) const override { require_causal_lm(model, "objective causal_lm"); }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }

  Sums sums(const Batch& batch) const override {
    return {{"targets", host::number(batch.weight_BT.sum(at::kDouble))}};
  }

  bool draws_labels() const override { return true; }
  Batch drawn(const Model& model, const Output& output, const Batch& batch, const Pass& pass,
              const Random& random) const override {
    Batch other = batch;
    other.labels_BT = nn::draw_labels(model.causal_lm()->head(), output.hidden_BTD, batch.labels_BT, pass, random);
    return other;
  }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::Head& head = model.causal_lm()->head();
    LossTerms result;
    const Tensor sum = head.cross_entropy(output.hidden_BTD, batch.labels_BT, batch.weight_BT, pass, options_);
    result.terms.push_back({"loss", sum, "targets"});
    return result;
  }

 private:
  ops::CrossEntropyOptions options_;
};

}  // namespace

void register_causal_lm(Registries& hone) { hone.objectives.add<CausalLmLoss>("causal_lm", "Predict the next token."); }

}  // namespace hone::objectives
