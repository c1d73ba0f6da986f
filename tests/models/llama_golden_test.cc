// The Llama family against transformers: logits, loss, every gradient, ten AdamW steps; with kernels and without.
#include <gtest/gtest.h>

#include "models/golden_checks.h"

namespace hone::test {
namespace {

class LlamaGolden : public LanguageGolden {};

TEST_P(LlamaGolden, LogitsAndLoss) {
  for (const char* config : {"config.json", "config-transformers4.json"}) {
    const auto model = golden_.model(Precision::fp32, config);
    const Batch batch = golden_.batch();
    expect_logits(*model, batch, config);
    Pass pass(batch);
    const at::NoGradGuard no_graph;
    const double expected = golden_["loss"].item<double>();
    EXPECT_NEAR(mean_loss(*model, batch, pass).item<double>(), expected, 1e-6 * std::max(1.0, expected)) << config;
  }
}

TEST_P(LlamaGolden, EveryGradient) { expect_every_gradient(/*training=*/false); }
TEST_P(LlamaGolden, TenSteps) { expect_ten_steps(/*training=*/true); }

TEST_P(LlamaGolden, ConfigComesBackAsItWas) { expect_same_config(golden_.folder, *golden_.model()); }

INSTANTIATE_TEST_SUITE_P(Models, LlamaGolden, testing::ValuesIn(golden_params(golden_names())), print_golden);

TEST(LlamaGoldens, AreThere) { EXPECT_GE(golden_names().size(), 30u); }

}  // namespace
}  // namespace hone::test
