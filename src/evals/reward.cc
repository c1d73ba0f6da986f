// Of a reward model: how often, and by how much, it scores the chosen answer of a pair higher than the rejected one.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "nn/pair_scores.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

class RewardMeasure final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit RewardMeasure(const Config&) {}

  RecordKind records() const override { return RecordKind::preference; }
  void check(const Model& model) const override { nn::require_score(model, "evaluation reward"); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::PairScores scores = nn::pair_scores(model, output, batch, pass);
    const Tensor margin_P = scores.chosen_P - scores.rejected_P;
    const Tensor measured =
        host::read(at::stack({-at::log_sigmoid(margin_P).sum(), margin_P.gt(0).sum().to(at::kDouble), margin_P.sum(),
                              (scores.chosen_P + scores.rejected_P).sum() / 2}));
    const auto value = host::values<double>(measured);
    if (!std::isfinite(value[0])) throw nn::not_finite(model, "a score");
    return {{"loss", value[0]},
            {"right", value[1]},
            {"margin", value[2]},
            {"reward", value[3]},
            {"pairs", static_cast<double>(margin_P.numel())}};
  }

  std::vector<std::string> names() const override { return {"loss", "accuracy", "margin", "mean_reward", "pairs"}; }
  bool greater_is_better(const std::string& name) const override { return name == "accuracy" || name == "margin"; }

  Metrics result(const Sums& total) const override {
    const double pairs = total.at("pairs");
    if (pairs == 0) throw Error(ErrorKind::data, "evaluation: no pair");
    return {{"loss", total.at("loss") / pairs},
            {"accuracy", total.at("right") / pairs},
            {"margin", total.at("margin") / pairs},
            {"mean_reward", total.at("reward") / pairs},
            {"pairs", pairs}};
  }
};

}  // namespace

void register_reward(Registries& hone) {
  hone.evals.add<RewardMeasure>("reward", "Share of pairs whose chosen answer a reward model scores higher.");
}

}  // namespace hone::evals
