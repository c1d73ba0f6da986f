// Of pairs of answers: how often the model finds the chosen one likelier than the rejected one.
//
// Letters: B batch, T time, N tokens (B * T), S documents, P pairs.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/evaluation.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "ops/log_probs.h"
#include "tensor/by_document.h"
#include "tensor/host.h"
#include "tensor/pairs.h"

namespace hone::evals {
namespace {

class Preference final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Preference(const Config&) {}

  RecordKind records() const override { return RecordKind::preference; }
  void check(const Model& model) const override { require_causal_lm(model, "evaluation preference"); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const auto tokens = model.causal_lm()->head().log_probs(output.hidden_BTD, batch.labels_BT, pass, false);
    const Tensor weight_N = batch.weight_BT.flatten().to(tokens.log_probs_N.scalar_type());
    const Tensor log_prob_S = sums_by_document(tokens.log_probs_N * weight_N, batch);
    const Tensor tokens_S = sums_by_document(weight_N, batch);
    const Pairs pairs = pairs_of(batch);
    const auto chosen = [&](const Tensor& values_S) { return values_S.index_select(0, pairs.chosen_P); };
    const auto rejected = [&](const Tensor& values_S) { return values_S.index_select(0, pairs.rejected_P); };
    const Tensor per_token_S = log_prob_S / tokens_S;
    const Tensor measured =
        host::read(at::stack({chosen(log_prob_S).sum(), rejected(log_prob_S).sum(),
                              chosen(log_prob_S).gt(rejected(log_prob_S)).sum().to(at::kDouble),
                              chosen(per_token_S).gt(rejected(per_token_S)).sum().to(at::kDouble)}));
    const auto value = host::values<double>(measured);
    if (!std::isfinite(value[0]) || !std::isfinite(value[1])) throw nn::not_finite(model, "a log-probability");
    return {{"chosen", value[0]},
            {"rejected", value[1]},
            {"right", value[2]},
            {"right_per_token", value[3]},
            {"pairs", static_cast<double>(pairs.count())}};
  }

  std::vector<std::string> names() const override {
    return {"accuracy", "accuracy_per_token", "logps/chosen", "logps/rejected", "pairs"};
  }
  bool greater_is_better(const std::string& name) const override { return name.starts_with("accuracy"); }

  Metrics result(const Sums& total) const override {
    const double pairs = total.at("pairs");
    if (pairs == 0) throw Error(ErrorKind::data, "evaluation: no pair");
    return {{"accuracy", total.at("right") / pairs},
            {"accuracy_per_token", total.at("right_per_token") / pairs},
            {"logps/chosen", total.at("chosen") / pairs},
            {"logps/rejected", total.at("rejected") / pairs},
            {"pairs", pairs}};
  }
};

}  // namespace

void register_preference(Registries& hone) {
  hone.evals.add<Preference>("preference", "Share of pairs whose chosen answer the model finds likelier.");
}

}  // namespace hone::evals
