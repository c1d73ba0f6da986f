// The Llama family against transformers: logits, loss, every gradient, ten AdamW steps; with kernels and without.
#include <gtest/gtest.h>

#include "models/golden_checks.h"

namespace hone::test {
namespace {

class LlamaGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  Golden golden_{GetParam().name};
};

TEST_P(LlamaGolden, LogitsAndLoss) {
  for (const char* config : {"config.json", "config-transformers4.json"}) {
    const auto model = golden_.model(Precision::fp32, config);
    const Batch batch = golden_.batch();
    const Tensor logits = model->logits(batch) * golden_["attention_mask"].unsqueeze(-1);
    expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), config);
    Pass pass(batch);
    const at::NoGradGuard no_graph;
    const double expected = golden_["loss"].item<double>();
    EXPECT_NEAR(mean_loss(*model, batch, pass).item<double>(), expected, 1e-6 * std::max(1.0, expected)) << config;
  }
}

TEST_P(LlamaGolden, EveryGradient) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  Pass pass(batch);
  mean_loss(*model, batch, pass).backward();
  expect_golden_gradients(*model, golden_.tensors);
}

TEST_P(LlamaGolden, TenSteps) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  expect_ten_golden_steps(*model, batch, golden_["ten_losses"],
                          [&](Pass& pass) { return mean_loss(*model, batch, pass); }, /*training=*/true);
}

TEST_P(LlamaGolden, ConfigComesBackAsItWas) { expect_same_config(golden_.folder, *golden_.model()); }

INSTANTIATE_TEST_SUITE_P(Models, LlamaGolden, testing::ValuesIn(golden_params(golden_names())), print_golden);

TEST(LlamaGoldens, AreThere) { EXPECT_GE(golden_names().size(), 30u); }

}  // namespace
}  // namespace hone::test
