// DeepSeek's configuration, its latents in generation, its experts' corrections, and what published folders hold
// besides. What it computes: decoders_golden_test.cc.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hone/adapter.h"
#include "hone/generate.h"
#include "models/by_cache.h"
#include "models/small_config.h"
#include "models/write_tensors.h"

namespace hone::test {
namespace {

const SmallConfig kDeepseek(R"({"model_type": "deepseek_v3", "vocab_size": 500, "hidden_size": 64,
      "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2,
      "kv_lora_rank": 24, "q_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 16,
      "first_k_dense_replace": 1})");

TEST(DeepseekConfigs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_key_value_heads": 2)", "num_key_value_heads: got 2, expected 4: each query head has keys"},
      {R"("head_dim": 24)", "head_dim: got 24, expected 8: the same as qk_rope_head_dim"},
      {R"("qk_head_dim": 25)", "qk_head_dim: got 25, expected 24"},
      {R"("qk_rope_head_dim": 7)", "head_dim: got 7, expected an even number"},
      {R"("n_group": 3)", "n_routed_experts: got 8, expected a multiple of n_group (3)"},
      {R"("n_group": 8)", "n_group: got 8 groups of 1 experts, expected at least 2 in each"},
      {R"("topk_group": 3)", "topk_group: got 3, expected at most n_group (2)"},
      {R"("num_experts_per_tok": 5)",
       "num_experts_per_tok: got 5, expected at most as many as there are experts in "
       "topk_group groups (4)"},
      {R"("scoring_func": "softmax")", "scoring_func: got \"softmax\", expected sigmoid"},
      {R"("topk_method": "greedy")", "topk_method: got \"greedy\", expected noaux_tc"},
      {R"("moe_layer_freq": 2)", "moe_layer_freq: got 2, expected 1"},
      {R"("mlp_layer_types": ["dense", "sparse"])", "mlp_layer_types: deepseek_v3 has no such key"},
      {R"("model_type": "glm4_moe_lite", "first_k_dense_replace": "absent", "mlp_layer_types": ["dense", "other"])",
       "mlp_layer_types.1: got \"other\", expected sparse or dense"},
      {R"("model_type": "deepseek_v2", "num_experts_per_tok": "absent")",
       "num_experts_per_tok: missing; deepseek_v2 has no default for it"},
      {R"("model_type": "deepseek_v2", "topk_method": "group_limited_greedy", "n_group": "absent")",
       "n_group: missing; topk_method group_limited_greedy needs n_group and topk_group"},
      {R"("model_type": "deepseek_v2", "mlp_bias": true)", "mlp_bias: got true, expected false: experts here"},
      {R"("model_type": "deepseek_v2", "router_bias_update_rate": 0.1)",
       "router_bias_update_rate: deepseek_v2 has no such key"},
      {R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "mscale_all_dim": 1.0})",
       "rope_parameters.factor: missing; mscale_all_dim needs it"},
      {R"("rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0, "mscale_all_dim": 1.0})",
       "rope_parameters.mscale_all_dim: scales all of a head's scores in transformers; expected it with rope_type"},
      {R"("n_routed_experts": 60000, "hidden_size": 40000, "num_hidden_layers": 9000)",
       "n_routed_experts: 539940000 in all layers together, expected at most 1000000"}};
  kDeepseek.expect_problems(cases, /*alone=*/false);
}

// Keys of DeepSeek-V2-Lite's, DeepSeek-V3's, GLM-4.5's and GLM-4.7-Flash's published files.
TEST(DeepseekConfigs, OfPublishedFilesAreRead) {
  EXPECT_EQ(kDeepseek.problem_with(R"("model_type": "deepseek_v2", "aux_loss_alpha": 0.001, "seq_aux": true, "n_group": 1,
      "topk_group": 1, "topk_method": "greedy", "scoring_func": "softmax", "moe_layer_freq": 1, "pretraining_tp": 1,
      "q_lora_rank": null, "norm_topk_prob": false, "n_shared_experts": 2, "routed_scaling_factor": 1.0, "rope_scaling":
      {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
      "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000, "torch_dtype": "bfloat16")"),
            "no error");
  EXPECT_EQ(kDeepseek.problem_with(R"("ep_size": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
      "num_nextn_predict_layers": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "tie_word_embeddings": false,
      "auto_map": {"AutoConfig": "x"}, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000)"),
            "no error");
  const std::string no_latent = R"("kv_lora_rank": "absent", "q_lora_rank": "absent", "qk_nope_head_dim": "absent",
      "qk_rope_head_dim": "absent", "v_head_dim": "absent", )";
  EXPECT_EQ(kDeepseek.problem_with(no_latent + R"("model_type": "glm4_moe", "use_qk_norm": true, "head_dim": 16,
      "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "attention_bias": true, "num_nextn_predict_layers": 1,
      "rope_scaling": null, "rope_theta": 1000000)"),
            "no error");
  EXPECT_EQ(
      kDeepseek.problem_with(R"("model_type": "glm4_moe_lite", "topk_method": "noaux_tc", "partial_rotary_factor": 1.0,
      "num_nextn_predict_layers": 1, "rope_scaling": null, "rope_theta": 1000000)"),
      "no error");
}

// Latents alone are kept, once; they go with their rows.
TEST(Deepseek, LatentsGoWithTheirRows) {
  // Rows, layers, room for 16 tokens, a latent of 10 and a rotated key of 4.
  expect_rows_keep_their_past(*Golden("deepseek_v3", kDecoders).model(), 4 * 3 * 3 * 16 * (10 + 4));
}

// Sizes as published ones, which are beyond those of other heads.
TEST(Deepseek, LargeLatentsGiveWhatAWholePassGives) {
  const auto made = kDeepseek.with(R"("kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
      "v_head_dim": 128, "initializer_range": 0.06)");
  init_weights(*made, 3, Precision::fp32);
  expect_cache_is_whole_pass(*made->causal_lm(), "large");
}

TEST(Deepseek, AdaptersOfKeysAndValuesCountInGeneration) {
  const auto made = kDeepseek.with(R"("initializer_range": 0.2)");
  init_weights(*made, 3, Precision::fp32);
  const CausalLm& model = *made->causal_lm();
  const std::vector<std::vector<std::int64_t>> texts{{3, 9, 40, 77, 12, 6}};
  const auto without = by_cache(model, texts, 1);
  LoraConfig lora;
  lora.targets = {"kv_b_proj"};
  apply_lora(*made, lora, 1);
  made->each_with_adapters([](const std::string& name, Weight& weight) {
    const at::NoGradGuard no_graph;
    if (name.find("lora_B") != std::string::npos)
      weight.value().copy_(at::linspace(-1, 1, weight.numel(), at::kFloat).view(weight.shape()));
  });
  Batch batch;
  batch.ids_BT = at::tensor(texts[0], at::kLong).unsqueeze(0);
  const Tensor whole = model.logits(batch)[0];
  expect_close(by_cache(model, texts, 1)[0], whole, 1e-4 * std::max(1.0, largest(whole)), "with an adapter");
  EXPECT_GT(largest(without[0] - whole), 1e-2);
}

// Experts that had fewer tokens than the mean are corrected upwards, others downwards.
TEST(Deepseek, CorrectionsFollowTheTokens) {
  const auto model = kDeepseek.with(R"("router_bias_update_rate": 0.01)");
  init_weights(*model, 3, Precision::bf16);
  Weight* bias = nullptr;
  model->each_weight([&](const std::string& name, Weight& weight) {
    if (name.ends_with("e_score_correction_bias")) bias = &weight;
  });
  ASSERT_TRUE(bias && bias->is_buffer());
  EXPECT_EQ(bias->use().scalar_type(), at::kFloat);
  Batch batch;
  batch.ids_BT = at::arange(64, at::kLong).view({2, 32});
  Pass pass(batch);
  pass.training = true;
  model->forward(batch, pass);
  const Tensor seen = pass.observed.at(bias);
  EXPECT_EQ(seen.sum().item<double>(), 2 * 64);
  bias->update_buffer(seen);
  EXPECT_TRUE(bias->use().equal(at::where(seen < 16, 0.01, at::where(seen > 16, -0.01, 0.0)).to(at::kFloat)));
  EXPECT_EQ(model->hf_config().find("router_bias_update_rate")->text(), "0.01");
}

TEST(Deepseek, CorrectionsStayWhereNothingIsSaid) {
  const auto model = kDeepseek.with("");
  init_weights(*model, 3, Precision::fp32);
  Batch batch;
  batch.ids_BT = at::arange(64, at::kLong).view({2, 32});
  Pass pass(batch);
  pass.training = true;
  model->forward(batch, pass);
  EXPECT_TRUE(pass.observed.empty());
  EXPECT_EQ(model->hf_config().find("router_bias_update_rate"), nullptr);
}

// What others route by: vLLM takes a softmax where nothing is said.
TEST(DeepseekConfigs, KeysThatOthersReadAreKept) {
  const auto config = kDeepseek.with(R"("topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1,
      "ep_size": 1, "seq_aux": true, "aux_loss_alpha": 0.0001)")->hf_config();
  for (const char* key : {"topk_method", "scoring_func", "moe_layer_freq", "ep_size", "seq_aux", "aux_loss_alpha"})
    EXPECT_TRUE(config.find(key)) << key;
  EXPECT_EQ(config.find("scoring_func")->text(), "sigmoid");
}

TEST(Deepseek, LayersThatGuessFurtherTokensArePassedOver) {
  const TempFolder root;
  const Golden golden("deepseek_v3", kDecoders);
  std::filesystem::copy(golden.folder / "config.json", root / "config.json");
  auto tensors = read_all(golden.folder / "model.safetensors");
  tensors["model.layers.3.eh_proj.weight"] = at::ones({2, 2});
  tensors["model.layers.3.self_attn.kv_b_proj.weight"] = at::ones({2, 2});
  write_tensors(root / "model.safetensors", tensors);
  const std::string file = root / "config.json";
  const auto model = build_model(config::read_file(file), file);
  load_weights(*model, root.path(), Precision::fp32);
  expect_close(model->causal_lm()->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1), golden["logits"],
               1e-5 * largest(golden["logits"]), "logits");
  // One more than config.json has is somebody's mistake.
  tensors["model.layers.4.eh_proj.weight"] = at::ones({2, 2});
  write_tensors(root / "model.safetensors", tensors);
  const auto other = build_model(config::read_file(file), file);
  EXPECT_THROW(load_weights(*other, root.path(), Precision::fp32), Error);
}

}  // namespace
}  // namespace hone::test
