// Loss, accuracy and macro F1 of labels.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"

namespace hone::evals {
namespace {

class Classification final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Classification(const Config&) {}

  RecordKind records() const override { return RecordKind::labelled; }
  void check(const Model& model) const override { require_classifier(model, "evaluation classification"); }

  // Besides the totals, of each label that occurs: how often it is right, true, and answered.
  Sums measure(const Model& model, const Output& output, const Batch& batch) const override {
    Pass pass(batch);
    const Tensor logits_SL = model.classifier()->logits(output, pass).to(at::kDouble).cpu();
    const Tensor truth_S = batch.extra.at("label").cpu().contiguous(), answer_S = logits_SL.argmax(1).contiguous();
    Sums sums{{"documents", static_cast<double>(truth_S.numel())}};
    sums["nll"] = at::cross_entropy_loss(logits_SL, truth_S, {}, at::Reduction::Sum).item<double>();
    if (!std::isfinite(sums["nll"])) throw nn::not_finite(model, "the loss");
    const std::int64_t *truth = truth_S.const_data_ptr<std::int64_t>(),
                       *answer = answer_S.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < truth_S.numel(); ++i) {
      ++sums[fmt::format("true/{}", truth[i])];
      ++sums[fmt::format("answered/{}", answer[i])];
      if (truth[i] == answer[i]) ++sums[fmt::format("right/{}", truth[i])];
    }
    return sums;
  }

  std::vector<std::string> names() const override { return {"loss", "accuracy", "f1_macro", "documents"}; }

  // As scikit-learn's f1_score(average="macro"): the mean over the labels that are true or answered anywhere.
  Metrics result(const Sums& total) const override {
    const double documents = total.at("documents");
    if (documents == 0) throw Error(ErrorKind::data, "evaluation: no document with a label");
    std::set<std::string> labels;
    for (const auto& [name, count] : total)
      if (const auto slash = name.find('/'); slash != std::string::npos) labels.insert(name.substr(slash));
    const auto count = [&](const char* what, const std::string& label) {
      const auto found = total.find(what + label);
      return found == total.end() ? 0.0 : found->second;
    };
    double right = 0, f1 = 0;
    for (const std::string& label : labels) {
      right += count("right", label);
      f1 += 2 * count("right", label) / (count("true", label) + count("answered", label));
    }
    return {{"loss", total.at("nll") / documents},
            {"accuracy", right / documents},
            {"f1_macro", f1 / static_cast<double>(labels.size())},
            {"documents", documents}};
  }
};

}  // namespace

void register_classification(Registries& hone) {
  hone.evals.add<Classification>("classification", "Loss, accuracy and macro F1 of labels.");
}

}  // namespace hone::evals
