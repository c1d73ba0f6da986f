// Qwen3-MoE against transformers: logits, losses, every gradient, ten AdamW steps; with kernels and without.
#include <gtest/gtest.h>

#include "models/golden_checks.h"

namespace hone::test {
namespace {

class Qwen3MoeGolden : public LanguageGolden {
 protected:
  Qwen3MoeGolden() : LanguageGolden(kExperts) {}
};

TEST_P(Qwen3MoeGolden, LogitsAndLosses) {
  for (const char* config : {"config.json", "config-transformers4.json"}) {
    const auto model = golden_.model(Precision::fp32, config);
    const Batch batch = golden_.batch();
    expect_logits(*model, batch, config);
    Pass pass(batch);
    pass.training = true;
    EXPECT_NEAR(mean_loss(*model, batch, pass).item<double>(), golden_["loss"].item<double>(), 5e-6) << config;
    ASSERT_EQ(pass.aux.size(), golden_.tensors.contains("aux_loss") ? 1u : 0u);
    if (pass.aux.empty()) continue;
    const double coefficient = std::stod(model->hf_config().find("router_aux_loss_coef")->text());
    EXPECT_EQ(pass.aux[0].name, "router/loss");
    EXPECT_NEAR(pass.aux[0].sum.item<double>() / static_cast<double>(batch.tokens) / coefficient,
                golden_["aux_loss"].item<double>(), 1e-5);
  }
}

TEST_P(Qwen3MoeGolden, EveryGradient) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  Pass pass(batch);
  pass.training = true;
  mean_loss(*model, batch, pass).backward();
  expect_golden_gradients(*model, golden_.tensors);
  int unused = 0;
  model->each_weight([&](const std::string&, Weight& weight) { unused += largest(weight.grad()) == 0; });
  EXPECT_EQ(unused > 0, golden_.folder.filename() == "qwen3-moe-top1");  // there are experts without tokens
}

TEST_P(Qwen3MoeGolden, TenSteps) { expect_ten_steps(/*training=*/true); }

TEST_P(Qwen3MoeGolden, ConfigComesBackAsItWas) { expect_same_config(golden_.folder, *golden_.model()); }

INSTANTIATE_TEST_SUITE_P(Models, Qwen3MoeGolden, testing::ValuesIn(golden_params(golden_names(kExperts))),
                         print_golden);

TEST(Qwen3MoeGoldens, AreThere) { EXPECT_EQ(golden_names(kExperts).size(), 3u); }

}  // namespace
}  // namespace hone::test
