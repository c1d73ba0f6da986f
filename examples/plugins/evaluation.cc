// An evaluation: how often the right token is among the likeliest five.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/layers.h"
#include "hone/registry.h"

namespace {

using namespace hone;

class TopFive final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit TopFive(const Config&) {}

  void check(const Model& model) const override { require_causal_lm(model, "evaluation top_five"); }
  std::vector<std::string> names() const override { return {"top_five"}; }

  // Of one batch: amounts that add up. Nothing is kept between calls.
  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor wanted = batch.labels_BT.ne(-100).flatten().nonzero().squeeze(-1);
    const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1).index_select(0, wanted);
    const Tensor labels_N1 = batch.labels_BT.flatten().index_select(0, wanted).unsqueeze(1);
    const Tensor best_N5 = std::get<1>(model.causal_lm()->head().logits(hidden_ND, pass).topk(5, -1));
    return {{"right", best_N5.eq(labels_N1).sum().item<double>()}, {"tokens", double(wanted.numel())}};
  }
  Metrics result(const Sums& total) const override { return {{"top_five", total.at("right") / total.at("tokens")}}; }
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.evals.add<TopFive>("top_five", "Share of tokens that are among the likeliest five.");
}
