// The Llama family against transformers: logits, loss, every gradient, ten AdamW steps; with kernels and without.
#include <gtest/gtest.h>

#include "models/adamw.h"
#include "models/golden.h"
#include "ops/kernels.h"

namespace hone::test {
namespace {

struct Param {
  std::string name;
  bool kernels;
};
std::vector<Param> params() {
  std::vector<Param> all;
  for (const std::string& name : golden_names())
    for (const bool kernels : {true, false}) all.push_back({name, kernels});
  return all;
}
std::string print(const testing::TestParamInfo<Param>& info) {
  std::string text = info.param.name + (info.param.kernels ? "_kernels" : "_reference");
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

class LlamaGolden : public testing::TestWithParam<Param> {
 protected:
  ops::LevelScope scope_{GetParam().kernels ? ops::Level::amx : ops::Level::reference};
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
  double model_largest = 0;
  for (const auto& [name, tensor] : golden_.tensors)
    if (name.starts_with("grad.")) model_largest = std::max(model_largest, largest(tensor));
  int seen = 0;
  model->each_weight([&](const std::string& name, Weight& weight) {
    const Tensor& expected = golden_["grad." + name];
    expect_close(weight.grad(), expected, 1e-5 * std::max(largest(expected), 1e-3 * model_largest), name);
    ++seen;
  });
  EXPECT_EQ(seen, std::count_if(golden_.tensors.begin(), golden_.tensors.end(),
                                [](const auto& t) { return t.first.starts_with("grad."); }));
}

TEST_P(LlamaGolden, TenSteps) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  AdamW optimizer;
  std::vector<float> losses;
  for (int t = 1; t <= 10; ++t) {
    Pass pass(batch);
    pass.training = true;
    const Tensor loss = mean_loss(*model, batch, pass);
    losses.push_back(loss.item<float>());
    loss.backward();
    optimizer.step(*model, t);
  }
  expect_close(at::tensor(losses), golden_["ten_losses"], 1e-5, "losses");
}

TEST_P(LlamaGolden, ConfigComesBackAsItWas) {
  const auto model = golden_.model();
  const config::Node written = model->hf_config();
  const config::Node source = config::read_file((golden_.folder / "config.json").string());
  for (const config::Change& change : config::diff(source, written))
    if (change.path != "transformers_version")
      ADD_FAILURE() << change.path << ": was " << change.before << ", is " << change.after;
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaGolden, testing::ValuesIn(params()), print);

TEST(LlamaGoldens, AreThere) { EXPECT_GE(golden_names().size(), 30u); }

}  // namespace
}  // namespace hone::test
