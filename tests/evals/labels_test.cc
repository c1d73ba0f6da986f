// What is measured of labels and numbers, against scikit-learn (tools/golden/golden_label_metrics.py).
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "hone/config.h"
#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "models/classifier_golden.h"

namespace hone::test {
namespace {

Metrics measured(const std::string& evaluation, const Model& model, const Batch& batch, int times) {
  const at::NoGradGuard no_grad;
  const auto one = registries().evals.make(evaluation, *registries().evals.options(evaluation));
  Sums total;
  for (int i = 0; i < times; ++i) {
    Pass pass(batch);
    for (const auto& [name, sum] : one->measure(model, model.forward(batch, pass), batch, pass)) total[name] += sum;
  }
  return one->result(total);
}

// Sums of several batches say the same as those of one, whose documents are counted twice.
TEST(MetricsOfLabels, EqualScikitLearn) {
  const config::Node expected = config::read_file((kClassifiers / "metrics.json").string());
  for (const auto& [name, metrics] : expected.entries()) {
    const std::string evaluation = name.ends_with("regression") ? "regression" : "multi_label";
    const auto model = load_classifier(name);
    const Batch batch = batch_of(read_all(kClassifiers / name / "golden.safetensors"));
    for (const int times : {1, 3}) {
      Metrics found = measured(evaluation, *model, batch, times);
      EXPECT_EQ(found.at("documents"), 5 * times);
      for (const auto& [metric, value] : metrics.entries())
        EXPECT_NEAR(found.at(metric), std::stod(value.text()), 2e-5) << name << " " << metric;
    }
  }
}

TEST(MetricsOfLabels, WhereNothingVariesThereIsNoCorrelation) {
  const auto model = load_classifier("bert-regression");
  Batch batch = batch_of(read_all(kClassifiers / "bert-regression" / "golden.safetensors"));
  batch.extra["label"] = at::full({5, 1}, 0.1, at::kDouble);
  const Metrics found = measured("regression", *model, batch, 1);
  EXPECT_EQ(found.at("pearson"), 0);
  EXPECT_EQ(found.at("r2"), 0);
  EXPECT_GT(found.at("loss"), 0);
}

// Numbers from 0 to 1 that a sigmoid gives: the loss is that of torch's binary_cross_entropy_with_logits, and all else
// is of the sigmoid.
TEST(MetricsOfLabels, OfBinaryCrossEntropyAreOfTheSigmoid) {
  const at::NoGradGuard no_grad;
  const auto model = load_classifier("bert-regression");
  Batch batch = batch_of(read_all(kClassifiers / "bert-regression" / "golden.safetensors"));
  const at::Tensor label = at::tensor({0.0, 0.25, 1.0, 0.5, 0.75}, at::kDouble).unsqueeze(1);
  batch.extra["label"] = label;
  config::Choice<Evaluation> choice;
  Problems problems;
  config::Values<config::Choice<Evaluation>>::read(
      config::parse_yaml("{type: regression, regression_loss: binary_cross_entropy}", "test", problems), choice,
      {problems, ""});
  problems.raise();
  const auto one = registries().evals.make(choice);
  Pass pass(batch);
  const Output output = model->forward(batch, pass);
  const Metrics found = one->result(one->measure(*model, output, batch, pass));
  const at::Tensor logits = model->classifier()->logits(output, pass).to(at::kDouble), said = logits.sigmoid();
  const at::Tensor loss = -(label * said.log() + (1 - label) * (1 - said).log());
  EXPECT_NEAR(found.at("loss"), loss.mean().item<double>(), 1e-9);
  EXPECT_NEAR(found.at("mae"), (said - label).abs().mean().item<double>(), 1e-9);
  const at::Tensor left = (said - label).square().sum() / (label - label.mean()).square().sum();
  EXPECT_NEAR(found.at("r2"), 1 - left.item<double>(), 1e-9);
}

TEST(MetricsOfLabels, ALabelThatIsNowhereCountsAsWrong) {
  const auto model = load_classifier("mistral-several");
  Batch batch = batch_of(read_all(kClassifiers / "mistral-several" / "golden.safetensors"));
  batch.extra["label"] = at::zeros({5, 3}, at::kDouble);
  const Metrics found = measured("multi_label", *model, batch, 1);
  EXPECT_EQ(found.at("f1_micro"), 0);
  EXPECT_EQ(found.at("f1_macro"), 0);
}

}  // namespace
}  // namespace hone::test
