// LoRA where PEFT's numbers do not reach: what is drawn, dropped in training, given by patterns, and files of fresh
// adapters on experts.
#include <cmath>

#include "harness/errors.h"
#include "harness/files.h"
#include "hone/adapter.h"
#include "hub/adapter_files.h"
#include "models/golden_checks.h"
#include "nn/lora.h"

namespace hone::test {
namespace {

class FreshLora : public ::testing::Test {
 protected:
  static LoraConfig config(std::vector<std::string> targets = {"all-linear"}) {
    LoraConfig made;
    made.rank = 4, made.targets = std::move(targets);
    return made;
  }
  static void each_lora(Model& model, const std::function<void(const std::string&, nn::Lora&)>& visit) {
    each_adapter(model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter& one) {
      visit(module, dynamic_cast<nn::Lora&>(one));
    });
  }
  // As if it had learnt something.
  static void move_all(Model& model) {
    const at::NoGradGuard no_grad;
    at::manual_seed(5);
    each_lora(model, [](const std::string&, nn::Lora& lora) { lora.b().fill(at::randn_like(lora.b().use()) * 0.1); });
  }
  static Tensor logits_of(const CausalLm& model, const Batch& batch, bool training = false, std::uint64_t seed = 0) {
    const at::NoGradGuard no_grad;
    Pass pass(batch);
    pass.training = training, pass.seed = seed;
    return model.head().logits(model.forward(batch, pass).hidden_BTD, pass);
  }
  Golden golden_{"llama"};
};

TEST_F(FreshLora, DropsInTrainingOnlyAndByTheSeed) {
  for (const bool dora : {false, true}) {
    LoraConfig lora = config();
    lora.dora = dora;
    const auto plain = golden_.model(), dropping = golden_.model();
    apply_lora(*plain, lora, 1), move_all(*plain);
    lora.dropout = 0.5;
    apply_lora(*dropping, lora, 1), move_all(*dropping);
    const Batch batch = golden_.batch();
    const Tensor expected = logits_of(*plain, batch);
    EXPECT_TRUE(at::equal(logits_of(*plain, batch, true), expected));
    expect_close(logits_of(*dropping, batch), expected, 1e-5 * largest(expected), "without training");
    const Tensor one = logits_of(*dropping, batch, true, 1);
    EXPECT_TRUE(at::equal(logits_of(*dropping, batch, true, 1), one));
    EXPECT_GT(largest(logits_of(*dropping, batch, true, 2) - one), 0.01 * largest(expected));
    EXPECT_GT(largest(expected - one), 0.01 * largest(expected));
  }
}

// What is dropped is made up for: the mean over many rows is that of no dropout.
TEST_F(FreshLora, DroppingKeepsTheMean) {
  const auto model = golden_.model();
  LoraConfig lora = config({"q_proj"});
  apply_lora(*model, lora, 1), move_all(*model);
  const auto more = golden_.model();
  lora.dropout = 0.3;
  apply_lora(*more, lora, 1), move_all(*more);
  const Tensor x = at::ones({50'000, 24}), y = at::zeros({50'000, 24});
  const Batch none;
  Pass pass(none);
  pass.training = true;
  const auto added = [&](Model& from) {
    const at::NoGradGuard no_grad;
    Tensor mean;
    each_lora(from, [&](const std::string&, nn::Lora& one) {
      if (!mean.defined()) mean = one.add(y, x, pass).mean(0);
    });
    return mean;
  };
  const Tensor expected = added(*model);
  expect_close(added(*more), expected, 0.02 * largest(expected), "mean");
}

// Whatever goes through the factors: the start is taken away again.
TEST_F(FreshLora, PissaBeginsAsTheBase) {
  const Tensor before = logits_of(*golden_.model(), golden_.batch());
  for (const bool dora : {false, true})
    for (const double dropout : {0.0, 0.5})
      for (const auto& targets : {std::vector<std::string>{"all-linear"}, {"embed_tokens", "q_proj"}}) {
        const auto model = golden_.model();
        LoraConfig lora = config(targets);
        lora.init = "pissa", lora.dora = dora, lora.dropout = dropout;
        apply_lora(*model, lora, 1);
        expect_close(logits_of(*model, golden_.batch()), before, 1e-4 * largest(before), "as it is used");
        // DoRA in training takes the dropped inputs for the weight's part, too, as PEFT does.
        if (dora && dropout > 0) continue;
        expect_close(logits_of(*model, golden_.batch(), true), before, 1e-4 * largest(before), "in training");
      }
}

TEST_F(FreshLora, PatternsReachTheirModules) {
  const auto model = golden_.model();
  LoraConfig lora = config();
  lora.alpha = 6;
  lora.rank_pattern = {{"v_proj", 2}, {"layers.1.mlp.up_proj", 3}};
  lora.alpha_pattern = {{"v_proj", 10}, {".*layers\\.0\\..*down_proj", 1}};
  apply_lora(*model, lora, 1);
  each_lora(*model, [](const std::string& module, nn::Lora& one) {
    const bool v = module.ends_with("v_proj"), up = module.ends_with("layers.1.mlp.up_proj"),
               down = module.ends_with("layers.0.mlp.down_proj");
    const std::int64_t rank = v ? 2 : up ? 3 : 4;
    EXPECT_EQ(one.options().rank, rank) << module;
    EXPECT_EQ(one.a().shape()[0], rank) << module;
    EXPECT_DOUBLE_EQ(one.options().scale, (v ? 10. : down ? 1. : 6.) / static_cast<double>(rank)) << module;
  });
}

// PEFT's: a normal distribution of 1 / rank; of the default a uniform one within 1 / sqrt(inputs).
TEST_F(FreshLora, GaussianStartIsOneByTheRankWide) {
  const auto model = golden_.model();
  LoraConfig lora = config();
  lora.init = "gaussian";
  apply_lora(*model, lora, 1);
  std::vector<Tensor> all;
  each_lora(*model, [&](const std::string&, nn::Lora& one) { all.push_back(one.a().use().detach().flatten()); });
  const Tensor values = at::cat(all);
  EXPECT_GT(values.numel(), 1000);
  EXPECT_NEAR(values.std().item<double>(), 0.25, 0.01);
  EXPECT_NEAR(values.mean().item<double>(), 0, 0.02);
}

// PEFT's: normal numbers times half the rows of an orthogonal matrix, by ten; the other half is B's.
TEST_F(FreshLora, OrthogonalStartIsNoChangeOfTwoFactorsThatAreNotZero) {
  std::unique_ptr<CausalLm> model;
  LoraConfig lora = config();
  lora.init = "orthogonal";
  std::vector<Tensor> all;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    model = golden_.model(), apply_lora(*model, lora, seed);
    each_lora(*model, [&](const std::string& module, nn::Lora& one) {
      const Tensor a = one.a().use().detach(), b = one.b().use().detach();
      EXPECT_LT(largest(b.matmul(a)), 1e-6) << module;
      all.push_back(a.flatten()), all.push_back(b.flatten());
    });
  }
  EXPECT_NEAR(at::cat(all).std().item<double>(), std::sqrt(0.5) / 10, 0.002);
  const Tensor before = logits_of(*golden_.model(), golden_.batch());
  expect_close(logits_of(*model, golden_.batch()), before, 1e-5 * largest(before), "logits");
}
TEST_F(FreshLora, OrthogonalStartsNeedAnEvenRankAndNoTable) {
  LoraConfig lora = config();
  lora.init = "orthogonal", lora.rank = 3;
  EXPECT_HONE_ERROR(apply_lora(*golden_.model(), lora, 1), config,
                    "adapter.init: orthogonal: model.layers.0.self_attn.q_proj: got rank 3, expected an even one");
  lora.rank = 4, lora.targets = {"embed_tokens"};
  EXPECT_HONE_ERROR(apply_lora(*golden_.model(), lora, 1), config, "embed_tokens: got a table");
}

// PEFT keeps an expert's gate and up as one weight, which has one first factor.
TEST_F(FreshLora, FilesOfFreshAdaptersOnExpertsHoldWhatIsThere) {
  const Golden golden("qwen3-moe", "tests/golden/experts");
  const auto model = golden.model();
  apply_lora(*model, config({".*experts\\..*", "q_proj"}), 1), move_all(*model);
  const TempFolder folder;
  hub::save_adapter_folder(folder / "made", *model, {config(), "base"}, {}, {});
  const auto again = golden.model();
  load_adapter(*again, folder / "made");
  const Tensor expected = logits_of(*model, golden.batch());
  EXPECT_GT(largest(expected - logits_of(*golden.model(), golden.batch())), 0.01 * largest(expected));
  expect_close(logits_of(*again, golden.batch()), expected, 1e-5 * largest(expected), "from the file");
}

}  // namespace
}  // namespace hone::test
