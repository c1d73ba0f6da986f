// An objective: next-token prediction that cares more for tokens the model finds hard (focal loss, Lin et al., 2017).
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"

namespace {

using namespace hone;

class Focal final : public Objective {
 public:
  struct Config {
    double gamma = 2;
    static constexpr auto fields() {
      return std::tuple{
          field("gamma", &Config::gamma, "How little easy tokens count; 0 = cross-entropy.", at_least(0))};
    }
  };
  explicit Focal(const Config& config) : gamma_(config.gamma) {}

  void check(const Model& model) const override { require_causal_lm(model, "objective focal"); }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }

  // How much a micro-batch has to learn from: what divides the loss, over all micro-batches of a step.
  Sums sums(const Batch& batch) const override { return {{"targets", double(batch.supervised)}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass&) const override {
    const Tensor wanted = batch.labels_BT.ne(-100).flatten().nonzero().squeeze(-1);
    const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1).index_select(0, wanted);
    const Tensor labels_N1 = batch.labels_BT.flatten().index_select(0, wanted).unsqueeze(1);
    const Tensor log_p_N = model.causal_lm()->head().logits(hidden_ND).log_softmax(-1).gather(1, labels_N1).squeeze(1);
    const Tensor p_N = log_p_N.exp();
    LossTerms result;  // sums, not means: the trainer alone divides
    result.terms.push_back({"loss", -((1 - p_N).pow(gamma_) * log_p_N).sum(), "targets"});
    result.metrics["confidence"] = {p_N.sum().item<double>(), double(batch.supervised)};
    return result;
  }

 private:
  double gamma_;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.objectives.add<Focal>("focal", "Predict the next token; easy ones count less.");
}
