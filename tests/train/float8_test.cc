// Training with products in fp8: it learns as in bf16, goes on with the same bits, and says what stays in bf16.
#include <gtest/gtest.h>

#include "harness/close.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

// Its attention's sizes are multiples of 16.
constexpr const char* kManyExperts =
    "{type: qwen3_moe, hidden_size: 32, intermediate_size: 64, moe_intermediate_size: 16, num_experts: 16, "
    "num_experts_per_tok: 2, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16, "
    "max_position_embeddings: 256}";

class Float8Run : public ::testing::Test {
 protected:
  Recipe recipe(const std::string& name, Overrides overrides) {
    overrides.insert(overrides.begin(), {"trainer.precision", "bf16"});
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return test::small_recipe(folder_, overrides);
  }
  std::vector<double> losses(const std::string& name, const Overrides& overrides, const char* metric = "loss") {
    train(recipe(name, overrides), test::quiet_options());
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(metric)) values.push_back(line.at(metric));
    return values;
  }
  std::string said(const Overrides& overrides) {
    std::string all;
    for (const std::string& line : preflight(recipe("said", overrides))) all += line + "\n";
    return all;
  }
  bool same_weights(const std::string& a, const std::string& b) {
    const std::string file = test::step_folder(10) + "/model.safetensors";
    return test::read_text(folder_ / a / file) == test::read_text(folder_ / b / file);
  }
  test::TempFolder folder_;
};

TEST_F(Float8Run, LearnsAsInBf16) {
  const Overrides longer{{"trainer.steps", "40"}, {"trainer.eval_every", "40"}};
  const std::vector<double> plain = losses("plain", longer);
  for (const char* recipe : {"tensorwise", "rowwise"}) {
    Overrides with = longer;
    with.emplace_back("trainer.fp8", recipe);
    const std::vector<double> in_float8 = losses(recipe, with);
    ASSERT_EQ(in_float8.size(), plain.size());
    EXPECT_NE(in_float8, plain) << recipe << ": nothing is in fp8";
    EXPECT_NEAR(in_float8.front(), plain.front(), 0.01 * plain.front()) << recipe;
    EXPECT_NEAR(in_float8.back(), plain.back(), 0.1 * plain.back()) << recipe;
    EXPECT_LT(in_float8.back(), 0.6 * in_float8.front()) << recipe;
  }
}

TEST_F(Float8Run, GoesOnWithTheSameBits) {
  for (const char* kind : {"tensorwise", "rowwise"}) {
    const Overrides overrides{{"trainer.fp8", kind}, {"trainer.checkpoint_blocks", "true"}};
    train(recipe("whole", overrides), test::quiet_options());
    train(recipe("parts", overrides), test::quiet_options());
    TrainOptions options = test::quiet_options();
    options.resume = "4";
    train(recipe("parts", overrides), options);
    test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
    for (const char* run : {"whole", "parts"}) std::filesystem::remove_all(folder_ / run);
  }
}

TEST_F(Float8Run, ABlockThatIsComputedAgainHasTheSameBits) {
  const Overrides kept{{"trainer.fp8", "rowwise"}};
  Overrides again = kept;
  again.emplace_back("trainer.checkpoint_blocks", "true");
  losses("kept", kept), losses("again", again);
  EXPECT_TRUE(same_weights("kept", "again"));
}

// What a run evaluates is what its checkpoints are, for whoever reads them.
TEST_F(Float8Run, EvaluatesInBf16) {
  const Overrides still{{"optimizer.learning_rate", "0"}, {"trainer.eval_at_start", "true"}};
  Overrides with = still;
  with.emplace_back("trainer.fp8", "tensorwise");
  EXPECT_EQ(losses("plain", still, "eval_held_out_loss"), losses("fp8", with, "eval_held_out_loss"));
  EXPECT_NE(losses("plain2", still), losses("fp8_2", with));
}

TEST_F(Float8Run, SaysWhatStaysInBf16) {
  EXPECT_EQ(said({}).find("fp8"), std::string::npos);
  const std::string all = said({{"trainer.fp8", "rowwise"}});
  EXPECT_NE(all.find("products in fp8, rowwise: 14 linear layers; in bf16: "), std::string::npos) << all;
  EXPECT_NE(all.find("warning: trainer.fp8: no hardware for it here"), std::string::npos) << all;
  const std::string routed = said({{"trainer.fp8", "tensorwise"}, {"model", kManyExperts}});
  EXPECT_NE(routed.find("8 linear layers; in bf16: "), std::string::npos) << routed;
  EXPECT_NE(routed.find("model.layers.*.mlp.experts.*.down_proj"), std::string::npos) << routed;
  EXPECT_NE(routed.find("model.layers.*.mlp.gate"), std::string::npos) << routed;
}

TEST_F(Float8Run, ExpertsStayInBf16) {
  // Where attention takes no fp8 either, all that is left are experts.
  const char* odd = "{type: qwen3_moe, hidden_size: 24, intermediate_size: 16, moe_intermediate_size: 16, num_experts: "
                    "6, num_experts_per_tok: 2, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 2, "
                    "head_dim: 12, max_position_embeddings: 256}";
  EXPECT_HONE_ERROR(said({{"trainer.fp8", "tensorwise"}, {"model", odd}}), config,
                    "trainer.fp8: tensorwise, but no linear layer");
  const std::vector<double> plain = losses("plain", {{"model", kManyExperts}});
  const std::vector<double> with = losses("fp8", {{"model", kManyExperts}, {"trainer.fp8", "rowwise"}});
  EXPECT_NEAR(with.back(), plain.back(), 0.1 * plain.back());
}

TEST_F(Float8Run, TrainsAdaptersBesideFrozenWeights) {
  train(recipe("base", {{"trainer.steps", "2"}}), test::quiet_options());
  const auto adapter = [&](const char* kind) {
    return Overrides{{"model", "{path: " + (folder_ / "base").string() + "}"},
                     {"tokenizer", ""},
                     {"trainer.fp8", kind},
                     {"adapter", "{type: lora, rank: 4}"}};
  };
  const std::vector<double> plain = losses("plain", adapter("off"));
  for (const char* kind : {"tensorwise", "rowwise"}) {
    const std::vector<double> with = losses(kind, adapter(kind));
    EXPECT_NE(with, plain);
    EXPECT_NEAR(with.back(), plain.back(), 0.05 * plain.back());
    EXPECT_LT(with.back(), with.front());
  }
}

TEST_F(Float8Run, RefusesWhatItCannotDo) {
  EXPECT_HONE_ERROR(said({{"trainer.fp8", "rowwise"}, {"trainer.precision", "fp32"}}), config,
                    "trainer.fp8: products in fp8 are a bf16 run's; got trainer.precision fp32, expected bf16");
  EXPECT_HONE_ERROR(said({{"trainer.fp8", "rowwise_with_gw_hp"}}), config, "expected one of off, tensorwise, rowwise");
  const char* gpt2 = "{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4, n_positions: 256}";
  EXPECT_HONE_ERROR(said({{"trainer.fp8", "rowwise"}, {"model", gpt2}}), config, "no linear layer of this model");
}

}  // namespace
}  // namespace hone
