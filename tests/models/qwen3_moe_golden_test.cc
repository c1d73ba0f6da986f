// Qwen3-MoE against transformers: logits, losses, every gradient, ten AdamW steps; with kernels and without.
#include <gtest/gtest.h>

#include "models/adamw.h"
#include "models/golden.h"
#include "models/routed_loss.h"
#include "ops/kernels.h"

namespace hone::test {
namespace {

using Param = std::tuple<std::string, bool>;  // golden, kernels

class Qwen3MoeGolden : public testing::TestWithParam<Param> {
 protected:
  ops::LevelScope scope_{std::get<1>(GetParam()) ? ops::Level::amx : ops::Level::reference};
  Golden golden_{std::get<0>(GetParam()), kExperts};
};

TEST_P(Qwen3MoeGolden, LogitsAndLosses) {
  for (const char* config : {"config.json", "config-transformers4.json"}) {
    const auto model = golden_.model(Precision::fp32, config);
    const Batch batch = golden_.batch();
    const Tensor logits = model->logits(batch) * golden_["attention_mask"].unsqueeze(-1);
    expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), config);
    Pass pass(batch);
    pass.training = true;
    EXPECT_NEAR(routed_loss(*model, batch, pass).item<double>(), golden_["loss"].item<double>(), 5e-6) << config;
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
  routed_loss(*model, batch, pass).backward();
  double model_largest = 0;
  for (const auto& [name, tensor] : golden_.tensors)
    if (name.starts_with("grad.")) model_largest = std::max(model_largest, largest(tensor));
  int seen = 0, unused = 0;
  model->each_weight([&](const std::string& name, Weight& weight) {
    const Tensor& expected = golden_["grad." + name];
    expect_close(weight.grad(), expected, 1e-5 * std::max(largest(expected), 1e-3 * model_largest), name);
    ++seen, unused += largest(weight.grad()) == 0;
  });
  EXPECT_EQ(seen, std::count_if(golden_.tensors.begin(), golden_.tensors.end(),
                                [](const auto& t) { return t.first.starts_with("grad."); }));
  EXPECT_EQ(unused > 0, golden_.folder.filename() == "qwen3-moe-top1");  // there are experts without tokens
}

TEST_P(Qwen3MoeGolden, TenSteps) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  AdamW optimizer;
  std::vector<float> losses;
  for (int t = 1; t <= 10; ++t) {
    Pass pass(batch);
    pass.training = true;
    const Tensor loss = routed_loss(*model, batch, pass);
    losses.push_back(loss.item<float>());
    loss.backward();
    optimizer.step(*model, t);
  }
  expect_close(at::tensor(losses), golden_["ten_losses"], 1e-5, "losses");
}

TEST_P(Qwen3MoeGolden, ConfigComesBackAsItWas) {
  const config::Node written = golden_.model()->hf_config();
  const config::Node source = config::read_file((golden_.folder / "config.json").string());
  for (const config::Change& change : config::diff(source, written))
    if (change.path != "transformers_version")
      ADD_FAILURE() << change.path << ": was " << change.before << ", is " << change.after;
}

INSTANTIATE_TEST_SUITE_P(Models, Qwen3MoeGolden,
                         testing::Combine(testing::ValuesIn(golden_names(kExperts)), testing::Bool()),
                         [](const auto& info) {
                           std::string text = std::get<0>(info.param);
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text + (std::get<1>(info.param) ? "_kernels" : "_reference");
                         });

TEST(Qwen3MoeGoldens, AreThere) { EXPECT_EQ(golden_names(kExperts).size(), 3u); }

}  // namespace
}  // namespace hone::test
