// How near the numbers that a model says are to those of the data.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

// Sums over documents of one label's numbers: what is true, what is said, and what lies between them.
constexpr const char* kSums[] = {"true", "said", "true_true", "said_said", "true_said", "squared", "absolute"};

class Regression final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Regression(const Config&) {}

  RecordKind records() const override { return RecordKind::labelled; }
  ProblemType problem_type() const override { return ProblemType::regression; }
  void check(const Model& model) const override { require_classifier(model, "evaluation regression", 1); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor said_SL = host::read(model.classifier()->logits(output, pass).to(at::kDouble));
    const Tensor true_SL = host::read(batch.extra.at("label")), error_SL = said_SL - true_SL;
    const Tensor sums = at::stack({true_SL, said_SL, true_SL * true_SL, said_SL * said_SL, true_SL * said_SL,
                                   error_SL * error_SL, error_SL.abs()})
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
  static Metrics of_label(const Sums& total, int label, double documents) {
    const auto mean = [&](const char* name) { return total.at(fmt::format("{}/{}", name, label)) / documents; };
    const double of_true = mean("true_true") - mean("true") * mean("true");
    const double of_said = mean("said_said") - mean("said") * mean("said");
    const double shared = mean("true_said") - mean("true") * mean("said");
    const bool vary = varies(of_true, mean("true_true")) && varies(of_said, mean("said_said"));
    return {{"loss", mean("squared")},
            {"mae", mean("absolute")},
            {"pearson", vary ? shared / std::sqrt(of_true * of_said) : 0},
            {"r2", varies(of_true, mean("true_true")) ? 1 - mean("squared") / of_true : 0}};
  }

  // A variance that is more than what is left of a mean of squares by rounding.
  static bool varies(double variance, double mean_of_squares) { return variance > 1e-13 * mean_of_squares; }
};

}  // namespace

void register_regression(Registries& hone) {
  hone.evals.add<Regression>("regression",
                             "Mean squared and absolute error, Pearson's correlation and R^2 of numbers.");
}

}  // namespace hone::evals
