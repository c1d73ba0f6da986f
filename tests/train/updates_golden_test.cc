// Ten AdamW steps of every golden model against transformers + torch (tools/golden/golden.py), with the trainer's own
// parts.
#include <gtest/gtest.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/golden.h"
#include "train/support.h"
#include "train/trainer.h"

namespace hone {
namespace {

template <class Made>
std::unique_ptr<Made> make(const Registry<Made>& registry, const std::string& type, const std::string& yaml) {
  Problems problems;
  const auto options = registry.options(type);
  options->read(config::parse_yaml(yaml, "test", problems), problems, "");
  problems.raise();
  return registry.make(type, *options);
}

class TenSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(TenSteps, EqualTransformers) {
  const test::Golden golden(GetParam());
  const auto model = golden.model();
  const auto objective = make<Objective>(registries().objectives, "causal_lm", "{}");
  const auto optimizer =
      make<Optimizer>(registries().optimizers, "adamw", "{learning_rate: 1e-3, weight_decay: 0.1, schedule: constant}");
  training::Updater updater(*model, *optimizer, Precision::fp32);
  const Batch batch = golden.batch();
  const Sums sums = objective->sums(batch);
  for (std::int64_t step = 0; step < 10; ++step) {
    Pass pass(batch);
    pass.training = true;
    const LossTerms terms = objective->loss(*model, model->forward(batch, pass), batch, pass);
    const at::Tensor loss = terms.terms.at(0).sum / sums.at(terms.terms.at(0).per);
    loss.backward();
    updater.end_pass();
    const double expected = golden["ten_losses"][step].item<double>();
    EXPECT_NEAR(loss.item<double>(), expected, 1e-5 * std::max(1.0, expected)) << "step " << step;
    const double norm = updater.gradient_norm(), expected_norm = golden["ten_grad_norms"][step].item<double>();
    EXPECT_NEAR(norm, expected_norm, 1e-4 * std::max(1.0, expected_norm)) << "step " << step;
    updater.update({.update = step + 1, .step = step, .steps = 10}, norm, {.norm = 1.0});
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, TenSteps, ::testing::ValuesIn(test::golden_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace hone
