// How near the numbers that a model says are to those of the data.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "hone/data.h"
#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "nn/regression_loss.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

// Sums over documents of one label's numbers: what is true, what is said, and what lies between them.
constexpr const char* kSums[] = {"true", "said", "true_true", "said_said", "true_said", "squared", "absolute", "lost"};

class Regression final : public Evaluation {
 public:
  struct Config {
    std::optional<nn::RegressionLoss> regression_loss;
    static constexpr auto fields() {
      return std::tuple{field("regression_loss", &Config::regression_loss,
                              "What loss is: squared_error, or binary_cross_entropy of numbers from 0 to 1, where the "
                              "sigmoid of what the model gives is the number that all else is measured of; default: "
                              "as the model's run learnt, or its folder shows scores, else squared_error.")};
    }
  };
  explicit Regression(const Config& config)
      : is_of_shares_(config.regression_loss == nn::RegressionLoss::binary_cross_entropy) {}

  RecordKind records() const override { return RecordKind::labelled; }
  ProblemType problem_type() const override { return ProblemType::regression; }
  void check(const Model& model) const override { require_classifier(model, "evaluation regression", 1); }

  Sums measure_in(const EvaluationSet& set, const Model& model, const Output& output, const Batch& batch,
                  Pass& pass) const override {
    if (is_of_shares_) check_shares(set.data, batch);
    return measure(model, output, batch, pass);
  }
  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_SL = host::read(model.classifier()->logits(output, pass).to(at::kDouble));
    const Tensor said_SL = is_of_shares_ ? logits_SL.sigmoid() : logits_SL;
    const Tensor true_SL = host::read(batch.extra.at("label")).to(at::kDouble), error_SL = said_SL - true_SL;
    const Tensor squared_SL = error_SL * error_SL;
    const Tensor lost_SL =
        is_of_shares_ ? at::binary_cross_entropy_with_logits(logits_SL, true_SL, {}, {}, at::Reduction::None)
                      : squared_SL;
    const Tensor sums = at::stack({true_SL, said_SL, true_SL * true_SL, said_SL * said_SL, true_SL * said_SL,
                                   squared_SL, error_SL.abs(), lost_SL})
                            .sum(1);
    const auto values = host::values<double>(sums);
    if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
      throw nn::not_finite(model, "a number");
    Sums told{{"documents", static_cast<double>(said_SL.size(0))}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto labels = static_cast<std::size_t>(said_SL.size(1));
      told[fmt::format("{}/{}", kSums[i / labels], i % labels)] = values[i];
    }
    return told;
  }

  std::vector<std::string> names() const override { return {"loss", "mae", "pearson", "r2", "documents"}; }
  bool greater_is_better(const std::string& name) const override { return name == "pearson" || name == "r2"; }

  // Of several labels each is the mean of theirs. Where what is true, or what is said, is always the same, there is no
  // correlation: 0.
  Metrics result(const Sums& total) const override {
    const double documents = total.at("documents");
    if (documents == 0) throw Error(ErrorKind::data, "evaluation: no document with a number");
    Metrics all{{"loss", 0.0}, {"mae", 0.0}, {"pearson", 0.0}, {"r2", 0.0}};
    int labels = 0;
    for (; total.contains(fmt::format("true/{}", labels)); ++labels)
      for (const auto& [name, value] : of_label(total, labels, documents)) all[name] += value;
    for (auto& [name, value] : all) value /= labels;
    all["documents"] = documents;
    return all;
  }

 private:
  static void check_shares(const Dataset& data, const Batch& batch) {
    const Tensor label = host::read(batch.extra.at("label")).to(at::kDouble).contiguous();
    const auto values = host::values<double>(label);
    const std::size_t each = batch.docs.empty() ? 0 : values.size() / batch.docs.size();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] < 0 || values[i] > 1)
        throw Error(ErrorKind::data, fmt::format("{}: label: got {}, beyond 0 and 1; expected a number that a sigmoid "
                                                 "can give, as regression_loss is binary_cross_entropy",
                                                 data.record_name(batch.docs[i / each].record), values[i]))
            .hint("scale the numbers; hone eval --metric '{type: regression, regression_loss: squared_error}' "
                  "measures what the model gives before the sigmoid");
  }

  static Metrics of_label(const Sums& total, int label, double documents) {
    const auto mean = [&](const char* name) { return total.at(fmt::format("{}/{}", name, label)) / documents; };
    const double of_true = mean("true_true") - mean("true") * mean("true");
    const double of_said = mean("said_said") - mean("said") * mean("said");
    const double shared = mean("true_said") - mean("true") * mean("said");
    const bool vary = varies(of_true, mean("true_true")) && varies(of_said, mean("said_said"));
    return {{"loss", mean("lost")},
            {"mae", mean("absolute")},
            {"pearson", vary ? shared / std::sqrt(of_true * of_said) : 0},
            {"r2", varies(of_true, mean("true_true")) ? 1 - mean("squared") / of_true : 0}};
  }

  // A variance that is more than what is left of a mean of squares by rounding.
  static bool varies(double variance, double mean_of_squares) { return variance > 1e-13 * mean_of_squares; }

  const bool is_of_shares_;
};

}  // namespace

void register_regression(Registries& hone) {
  hone.evals.add<Regression>("regression",
                             "Mean squared and absolute error, Pearson's correlation and R^2 of numbers; or, of those "
                             "from 0 to 1, binary cross-entropy in place of the squared error.");
}

}  // namespace hone::evals
