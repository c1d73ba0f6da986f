// Qwen3-MoE in training and generation: checkpointing, packing, the cache, what is measured, export, and configurations
// that cannot be.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hub/save.h"
#include "models/by_cache.h"
#include "models/documents.h"
#include "models/golden_checks.h"
#include "models/small_config.h"

namespace hone::test {
namespace {

TEST(Qwen3Moe, CheckpointedBlocksGiveTheSameBits) {
  for (const std::string& name : golden_names(kExperts))
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64}) {
      const Golden golden(name, kExperts);
      const auto model = golden.model(precision);
      const Gradients kept = gradients(*model, golden.batch(), false), again = gradients(*model, golden.batch(), false),
                      remade = gradients(*model, golden.batch(), true);
      ASSERT_EQ(remade.size(), kept.size());
      for (const auto& [key, expected] : kept) {
        EXPECT_TRUE(at::equal(again.at(key), expected)) << name << " twice: " << key;
        EXPECT_TRUE(at::equal(remade.at(key), expected)) << name << " checkpointed: " << key;
      }
    }
}

TEST(Qwen3Moe, PackedIsPadded) {
  for (const std::string& name : golden_names(kExperts)) {
    const auto model = Golden(name, kExperts).model();
    const Gradients padded = gradients(*model, three_documents(false, 43), false),
                    packed = gradients(*model, three_documents(true, 43), false);
    for (const auto& [key, expected] : padded)
      expect_close(packed.at(key), expected, 1e-6 * std::max(1.0, largest(expected)), name + " " + key);
  }
}

TEST(Qwen3Moe, TheCacheGivesWhatAWholePassGives) {
  for (const std::string& name : golden_names(kExperts))
    for (const ops::Level level : {ops::Level::reference, ops::Level::amx}) {
      const ops::LevelScope scope(level);
      expect_cache_is_whole_pass(*Golden(name, kExperts).model(), name);
    }
}

TEST(Qwen3Moe, LowerPrecisionStaysNear) {
  const Golden golden("qwen3-moe", kExperts);
  const Tensor expected = golden["logits"];
  const auto logits = [&](Precision p) {
    return golden.model(p)->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1);
  };
  expect_close(logits(Precision::fp64), expected, 1e-5 * largest(expected), "fp64");
  // A rounding may send a token to another expert: most values are near, not all.
  const Tensor off = ((logits(Precision::bf16) - expected).abs() > 0.05 * largest(expected)).to(at::kFloat);
  EXPECT_LT(off.mean().item<double>(), 0.05);
}

TEST(Qwen3Moe, MeasuresHowTokensAreSpread) {
  const Golden golden("qwen3-moe-step", kExperts);  // only the second layer has experts: 7, two a token
  const auto model = golden.model();
  const Batch batch = golden.batch();
  Pass pass(batch);
  pass.training = true;
  mean_loss(*model, batch, pass);
  std::vector<double> shares;
  for (int e = 0; e < 7; ++e) {
    const Metric& share = pass.metrics.at("router/share/" + std::to_string(e));
    EXPECT_EQ(share.weight, 2.0 * static_cast<double>(batch.tokens));
    shares.push_back(share.sum / share.weight);
  }
  EXPECT_EQ(pass.metrics.size(), 9u);
  double sum = 0, entropy = 0;
  for (const double share : shares) sum += share, entropy -= share > 0 ? share * std::log(share) : 0;
  EXPECT_NEAR(sum, 1, 1e-12);
  const auto mean = [&](const char* name) { return pass.metrics.at(name).sum / pass.metrics.at(name).weight; };
  EXPECT_NEAR(mean("router/imbalance"), *std::max_element(shares.begin(), shares.end()) * 7, 1e-12);
  EXPECT_NEAR(mean("router/entropy"), entropy, 1e-12);
  Pass other(batch);
  mean_loss(*model, batch, other);
  EXPECT_TRUE(other.metrics.empty() && other.aux.empty() && other.totals.empty());  // not in training: nothing is kept
}

TEST(Qwen3Moe, WithoutExpertsInAnyLayerHasNoBalancingLoss) {
  const Golden golden("qwen3-moe", kExperts);
  config::Node config = config::read_file((golden.folder / "config.json").string());
  config.at_or_add("decoder_sparse_step") = config::Node::scalar("4");
  const auto model = build_model(config, "config.json");
  init_weights(*model, 1, Precision::fp32);
  const Batch batch = golden.batch();
  Pass pass(batch);
  pass.training = true;
  model->forward(batch, pass);
  EXPECT_TRUE(pass.aux.empty() && pass.metrics.empty());
}

TEST(Qwen3Moe, ExportedAndReadAgainIsTheSame) {
  const TempFolder root;
  for (const std::string& name : golden_names(kExperts)) {
    const Golden golden(name, kExperts);
    const auto model = golden.model();
    hub::save_model_folder(root / name, *model, hub::model_files(*model, "", nullptr), {});
    const auto source = read_all(golden.folder / "model.safetensors"),
               written = read_all(root / name / "model.safetensors");
    ASSERT_EQ(written.size(), source.size());
    for (const auto& [key, tensor] : source) EXPECT_TRUE(at::equal(written.at(key), tensor)) << key;
    const auto again = load_model((root / name).string(), Precision::fp32);
    EXPECT_TRUE(at::equal(again->causal_lm()->logits(golden.batch()), model->logits(golden.batch())));
    const config::Node config = config::read_file((root / name / "config.json").string());
    for (const config::Change& change :
         config::diff(config::read_file((golden.folder / "config.json").string()), config))
      EXPECT_EQ(change.path, "transformers_version");
  }
}

// ---- configurations

const SmallConfig kSmallQwen3Moe(R"({"model_type": "qwen3_moe", "vocab_size": 32, "hidden_size": 16,
      "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "intermediate_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1})");

TEST(Qwen3MoeConfigs, ThatCannotBeSayWhyOnce) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("num_experts": 0)", "num_experts: got 0, expected 1 to 65536"},
      {R"("num_experts": 1000000)", "num_experts: got 1000000, expected 1 to 65536"},
      {R"("num_experts": 65536, "num_hidden_layers": 100)",
       "num_experts: 6553600 in all layers together, expected at most 1000000"},
      {R"("num_local_experts": 5)", "num_experts: got 4, and num_local_experts 5: two names of the same number"},
      {R"("num_experts_per_tok": 5)", "num_experts_per_tok: got 5, expected at most as many as there are experts (4)"},
      {R"("num_experts_per_tok": 0)", "num_experts_per_tok: got 0, expected 1 to 65536"},
      {R"("moe_intermediate_size": -8)", "moe_intermediate_size: got -8, expected 1 to 2147483647"},
      {R"("moe_intermediate_size": 2000000000, "hidden_size": 200000)",
       "num_experts: the sizes describe a model of 9.6e+15 parameters"},
      {R"("decoder_sparse_step": 0)", "decoder_sparse_step: got 0, expected 1 to 2147483647"},
      {R"("mlp_only_layers": [1, 2])", "mlp_only_layers.1: got 2, expected a layer from 0 to 1"},
      {R"("mlp_only_layers": [-1])", "mlp_only_layers.0: got -1, expected 0 to 10000"},
      {R"("router_aux_loss_coef": -0.5)", "router_aux_loss_coef: got -0.5, expected at least 0"},
      {R"("norm_topk_prob": 3)", "norm_topk_prob"},
      {R"("shared_expert_intermediate_size": 8)", "shared_expert_intermediate_size: qwen3_moe has no such key"},
      {R"("n_shared_experts": 1)", "n_shared_experts: no such option"},
      {R"("router_jitter_noise": 0.1)", "router_jitter_noise: no such option"},
      {R"("layer_types": ["full_attention", "full_attention"])", "layer_types: qwen3_moe has no such key"},
      {R"("mlp_bias": true)", "mlp_bias: qwen3_moe has no such key"},
      {R"("num_attention_heads": 4, "num_key_value_heads": 3)",
       "num_attention_heads: got 4, expected a multiple of num_key_value_heads (3)"},
      {R"("hidden_act": "tanh")", "hidden_act"}};
  kSmallQwen3Moe.expect_problems(cases);
}

TEST(Qwen3MoeConfigs, OfOtherFamiliesDoNotHaveItsKeys) {
  const std::string problem = kSmallQwen3Moe.problem_with(R"("model_type": "qwen3")");
  EXPECT_NE(problem.find("num_experts: no such option"), std::string::npos);
}

TEST(Qwen3MoeConfigs, BothNamesOfTheNumberAreTaken) {
  for (const char* more : {"", R"("num_local_experts": 4)", R"("num_experts": null, "num_local_experts": 2)",
                           R"("max_window_layers": 2, "use_cache": false, "mlp_only_layers": null)"})
    EXPECT_EQ(kSmallQwen3Moe.problem_with(more), "no error");
}

}  // namespace
}  // namespace hone::test
