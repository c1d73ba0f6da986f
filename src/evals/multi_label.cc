// Loss, F1 and accuracy of sets of labels.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

constexpr const char* kCounts[] = {"true", "given", "right"};

// A label is given where it is more likely than not.
class MultiLabel final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit MultiLabel(const Config&) {}

  RecordKind records() const override { return RecordKind::labelled; }
  ProblemType problem_type() const override { return ProblemType::multi_label_classification; }
  void check(const Model& model) const override { require_classifier(model, "evaluation multi_label", 1); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_SL = host::read(model.classifier()->logits(output, pass).to(at::kDouble));
    const Tensor true_SL = host::read(batch.extra.at("label")), given_SL = logits_SL.gt(0).to(at::kDouble);
    const Tensor nll = at::binary_cross_entropy_with_logits(logits_SL, true_SL, {}, {}, at::Reduction::Sum);
    Sums sums{{"documents", static_cast<double>(true_SL.size(0))}, {"nll", host::number(nll)}};
    if (!std::isfinite(sums["nll"])) throw nn::not_finite(model, "the loss");
    sums["whole"] = host::number(given_SL.eq(true_SL).all(1).sum().to(at::kDouble));
    const Tensor counts = at::stack({true_SL, given_SL, true_SL * given_SL}).sum(1);
    const auto values = host::values<double>(counts);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto labels = static_cast<std::size_t>(true_SL.size(1));
      sums[fmt::format("{}/{}", kCounts[i / labels], i % labels)] = values[i];
    }
    return sums;
  }

  std::vector<std::string> names() const override { return {"loss", "accuracy", "f1_micro", "f1_macro", "documents"}; }

  // As scikit-learn's accuracy_score and f1_score of sets: accuracy counts documents all of whose labels are right; a
  // label that neither is true nor given anywhere has an F1 of 0.
  Metrics result(const Sums& total) const override {
    const double documents = total.at("documents");
    if (documents == 0) throw Error(ErrorKind::data, "evaluation: no document with labels");
    const auto f1 = [](double right, double both) { return both == 0 ? 0 : 2 * right / both; };
    double all_right = 0, all_both = 0, macro = 0;
    int labels = 0;
    for (; total.contains(fmt::format("true/{}", labels)); ++labels) {
      const auto count = [&](const char* what) { return total.at(fmt::format("{}/{}", what, labels)); };
      const double right = count("right"), both = count("true") + count("given");
      all_right += right, all_both += both, macro += f1(right, both);
    }
    return {{"loss", total.at("nll") / documents / labels},
            {"accuracy", total.at("whole") / documents},
            {"f1_micro", f1(all_right, all_both)},
            {"f1_macro", macro / labels},
            {"documents", documents}};
  }
};

}  // namespace

void register_multi_label(Registries& hone) {
  hone.evals.add<MultiLabel>("multi_label", "Loss, accuracy and F1 of sets of labels.");
}

}  // namespace hone::evals
