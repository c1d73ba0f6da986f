// Of answers to choose from: how often the model finds the right one likelier than all others.
//
// Letters: B batch, T time, N tokens (B * T), S documents.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/evaluation.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "ops/log_probs.h"
#include "tensor/by_document.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

// As lm-eval scores choices: by the log-probability of an answer ("acc"), and by that for each of its characters
// ("acc_norm"); of two that are alike the first. Besides that for each of its tokens.
class MultipleChoice final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit MultipleChoice(const Config&) {}

  RecordKind records() const override { return RecordKind::choice; }
  void check(const Model& model) const override { require_causal_lm(model, "evaluation multiple_choice"); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const auto tokens = model.causal_lm()->head().log_probs(output.hidden_BTD, batch.labels_BT, pass, false);
    const Tensor weight_N = batch.weight_BT.flatten().to(tokens.log_probs_N.scalar_type());
    const Tensor log_prob_S = sums_by_document(tokens.log_probs_N * weight_N, batch).to(at::kDouble);
    const Tensor tokens_S = sums_by_document(weight_N, batch).to(at::kDouble);
    const Tensor per_token_S = log_prob_S / tokens_S, per_character_S = log_prob_S / batch.extra.at("characters");
    const Tensor scores = host::read(at::stack({log_prob_S, per_character_S, per_token_S}));
    const auto values = host::values<double>(scores);
    const std::size_t documents = batch.docs.size();
    Sums sums{{"questions", 0}, {"accuracy", 0}, {"accuracy_per_character", 0}, {"accuracy_per_token", 0}};
    for (std::size_t begin = 0, end = 0; begin < documents; begin = end) {
      while (end < documents && batch.docs[end].group == batch.docs[begin].group) ++end;
      ++sums["questions"];
      for (std::size_t kind = 0; kind < std::size(kKinds); ++kind)
        sums[kKinds[kind]] += chooses_right(model, values.subspan(kind * documents, documents), batch, begin, end);
    }
    return sums;
  }

  std::vector<std::string> names() const override {
    return {"accuracy", "accuracy_per_character", "accuracy_per_token", "questions"};
  }

  Metrics result(const Sums& total) const override {
    const double questions = total.at("questions");
    if (questions == 0) throw Error(ErrorKind::data, "evaluation: no question");
    Metrics metrics{{"questions", questions}};
    for (const char* kind : kKinds) metrics[kind] = total.at(kind) / questions;
    return metrics;
  }

 private:
  static constexpr const char* kKinds[] = {"accuracy", "accuracy_per_character", "accuracy_per_token"};

  static bool chooses_right(const Model& model, std::span<const double> scores, const Batch& batch, std::size_t begin,
                            std::size_t end) {
    std::size_t best = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(scores[i])) throw nn::not_finite(model, "a log-probability");
      if (scores[i] > scores[best]) best = i;
    }
    return batch.docs[best].role == Role::chosen;
  }
};

}  // namespace

void register_multiple_choice(Registries& hone) {
  hone.evals.add<MultipleChoice>("multiple_choice",
                                 "Share of questions whose right answer the model finds likelier than the others.");
}

}  // namespace hone::evals
