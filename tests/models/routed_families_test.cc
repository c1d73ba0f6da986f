// Relatives of Llama with routed experts: what their config.json may not say, what published files have, what absent
// keys mean, and what their routers keep. What they compute: decoders_golden_test.cc.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "models/golden.h"
#include "models/small_config.h"
#include "models/write_tensors.h"
#include "ops/grouped_router.h"

namespace hone::test {
namespace {

const SmallConfig kSmallRouted(R"({"vocab_size": 64, "hidden_size": 16, "intermediate_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1,
      "eos_token_id": 2})");

const std::string kDots = R"("model_type": "dots1", "n_routed_experts": 4, "n_shared_experts": 1,
                             "num_experts_per_tok": 2, )";

TEST(RoutedFamilies, ThatCannotBeSayWhyOnce) {
  const std::string ernie = R"("model_type": "ernie4_5_moe", )", minimax = R"("model_type": "minimax_m2", )",
                    granite = R"("model_type": "granitemoe", )", flex = R"("model_type": "flex_olmo", )",
                    hunyuan = R"("model_type": "hunyuan_v1_moe", )";
  const std::pair<std::string, std::string> cases[] = {
      {R"("model_type": "dots1", "n_shared_experts": 1, "num_experts_per_tok": 2)",
       "n_routed_experts: missing; dots1 has no default for it"},
      {R"("model_type": "dots1", "n_routed_experts": 4, "num_experts_per_tok": 2)",
       "n_shared_experts: missing; dots1 has no default for it"},
      {kDots + R"("scoring_func": "softmax")", "scoring_func: got \"softmax\", expected sigmoid or noaux_tc"},
      {kDots + R"("sliding_window": null, "layer_types": ["full_attention", "sliding_attention"])",
       "layer_types.1: sliding_attention needs a sliding_window"},
      {kDots + R"("use_sliding_window": true)", "use_sliding_window: dots1 has no such key"},
      {kDots + R"("mlp_layer_types": ["dense", "sparse"])", "mlp_layer_types: dots1 has no such key"},
      {ernie + R"("moe_k": 65)", "moe_k: got 65, expected at most as many"},
      {ernie + R"("moe_gate": "top2")", "moe_gate: got \"top2\", expected topk"},
      {ernie + R"("moe_use_aux_free": false)", "moe_use_aux_free: got false, expected true"},
      {ernie + R"("moe_norm_min": 0)", "moe_norm_min: got 0"},
      {ernie + R"("moe_layer_interval": 0)", "moe_layer_interval: got 0"},
      {ernie + R"("attention_bias": true)", "attention_bias: ernie4_5_moe has no such key"},
      {granite + R"("num_local_experts": 2, "num_experts_per_tok": 3)", "num_experts_per_tok: got 3"},
      {granite + R"("residual_multiplier": 0)", "residual_multiplier: got 0"},
      {granite + R"("mlp_bias": true)", "mlp_bias: granitemoe has no such key"},
      {minimax + R"("scoring_func": "softmax")", "scoring_func: got \"softmax\", expected sigmoid"},
      {minimax + R"("qk_norm_type": "per_head")", "qk_norm_type: got \"per_head\", expected per_layer"},
      {minimax + R"("attn_type_list": [1, 0])", "attn_type_list: got a 0, expected 1 for each layer"},
      {minimax + R"("use_routing_bias": false)", "use_routing_bias: got false, expected true"},
      {minimax + R"("shared_intermediate_size": 8)", "shared_intermediate_size: got 8, expected 0"},
      {minimax + R"("router_jitter_noise": 0.1)", "router_jitter_noise: got a number above 0"},
      {minimax + R"("rotary_dim": 300)", "partial_rotary_factor: got 2.34375"},
      {flex + R"("clip_qkv": 1.0)", "clip_qkv: flex_olmo has no such key"},
      {flex + R"("num_experts": 4)", "num_experts_per_tok: got 5, expected at most as many"},
      {hunyuan + R"("moe_topk": 2)", "moe_topk: got 2, expected at most as many as there are experts (1)"},
      {hunyuan + R"("num_experts": 4, "moe_topk": [2])", "moe_topk: got 1 entries, expected num_hidden_layers (2)"},
      {hunyuan + R"("num_shared_expert": [1, 2])", "num_shared_expert: got 2, expected 1"},
      {hunyuan + R"("moe_intermediate_size": 8)", "moe_intermediate_size: got 8, expected 24"},
      {hunyuan + R"("norm_topk_prob": false)", "norm_topk_prob: got false, expected true"},
      {hunyuan + R"("use_mla": true)", "use_mla: got true, expected false"},
      {hunyuan + R"("moe_layer_num_skipped": 1)", "moe_layer_num_skipped: expected 0"},
      {hunyuan + R"("n_group": 2)", "n_group: expected 1 or false"},
      {hunyuan + R"("routed_scaling_factor": true)", "routed_scaling_factor: "},
      {hunyuan + R"("kv_lora_rank": 8)", "kv_lora_rank: no such option"},
      {ernie + R"("use_rmsnorm": false)", "use_rmsnorm: got false, expected true"},
      {ernie + R"("is_quantized": true)", "is_quantized: got true, expected false"},
      {ernie + R"("compression_ratio": 2.0)", "compression_ratio: expected 1"}};
  kSmallRouted.expect_problems(cases);
}

// Keys of published files that mean nothing, or what is so anyhow.
TEST(RoutedFamilies, OfPublishedFilesAreRead) {
  for (const std::string& more :
       {kDots + R"("first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1, "rope_scaling": null,
           "norm_topk_prob": true, "pretraining_tp": 1, "rope_theta": 10000000, "routed_scaling_factor": 2.5,
           "scoring_func": "noaux_tc", "sliding_window": null, "max_window_layers": 62)",
        std::string(R"("model_type": "ernie4_5_moe", "rope_theta": 500000, "use_bias": false, "moe_num_experts": 64,
           "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_intermediate_size": 8, "moe_gate": "topk",
           "moe_capacity": [64, 64, 64], "moe_k": 6, "moe_layer_interval": 1, "moe_use_aux_free": true,
           "num_nextn_predict_layers": 1, "tie_word_embeddings": true, "use_rmsnorm": true, "is_quantized": false,
           "compression_ratio": 1.0)"),
        std::string(R"("model_type": "granitemoe", "attention_dropout": 0.1, "attention_multiplier": 0.015625,
           "embedding_multiplier": 12.0, "logits_scaling": 6.0, "num_experts_per_tok": 8, "num_local_experts": 32,
           "output_router_logits": false, "residual_multiplier": 0.22, "router_aux_loss_coef": 0.0,
           "rope_scaling": null, "rope_theta": 1500000)"),
        std::string(R"("model_type": "minimax_m2", "attn_type_list": [1, 1], "layernorm_full_attention_beta": 1.0,
           "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0, "mlp_intermediate_size": 8192,
           "mtp_transformer_layers": 1, "num_local_experts": 8, "num_mtp_modules": 3, "output_router_logits": false,
           "qk_norm_type": "per_layer", "rope_theta": 5000000, "rotary_dim": 64, "router_aux_loss_coef": 0.001,
           "router_jitter_noise": 0.0, "scoring_func": "sigmoid", "shared_intermediate_size": 0, "use_mtp": true,
           "shared_moe_mode": "sigmoid", "sliding_window": null, "use_qk_norm": true, "use_routing_bias": true)"),
        std::string(R"("model_type": "flex_olmo", "num_experts": 7, "num_experts_per_tok": 5, "norm_topk_prob": false,
           "rope_scaling": null, "rope_theta": 500000, "router_aux_loss_coef": 0.01)"),
        std::string(R"("model_type": "hunyuan_v1_moe", "attention_head_dim": 8, "num_experts": 16, "moe_topk": [8, 8],
           "num_shared_expert": [1, 1], "moe_intermediate_size": [24, 24], "moe_layer_num_skipped": 0,
           "moe_drop_tokens": false, "moe_random_routing_dropped_token": false, "use_mixed_mlp_moe": true,
           "use_mla": false, "norm_topk_prob": true, "group_limited_greedy": false, "routed_scaling_factor": false,
           "n_group": false, "topk_group": false, "kv_lora_rank": null, "v_head_dim": null, "use_qk_norm": true, "sep_token_id": 5, "eod_token_id": 7, "num_media_embeds": 257, "rope_scaling":
           {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            "type": "dynamic"})")})
    EXPECT_EQ(kSmallRouted.problem_with(more), "no error") << more;
}

// What transformers takes for keys that are absent.
TEST(RoutedFamilies, AbsentKeysMeanWhatTheyDoInTransformers) {
  const auto expect_told = [](const std::string& more, const std::vector<const char*>& parts) {
    const std::string told = config::to_json(kSmallRouted.with(more)->hf_config(), -1);
    for (const char* part : parts) EXPECT_THAT(told, testing::HasSubstr(part));
  };
  expect_told(kDots + R"("num_hidden_layers": 2)",
              {R"("first_k_dense_replace": 0)", R"("norm_topk_prob": false)", R"("n_group": 1)",
               R"("sliding_window": 4096)", R"("max_window_layers": 62)", R"("moe_intermediate_size": 1408)",
               R"("layer_types": ["full_attention", "full_attention"])"});
  expect_told(kDots + R"("max_window_layers": 1)",
              {R"("layer_types": ["full_attention", "sliding_attention"])", R"("sliding_window": 4096)"});
  expect_told(R"("model_type": "ernie4_5_moe")",
              {R"("moe_k": 6)", R"("moe_num_experts": 64)", R"("moe_num_shared_experts": 2)",
               R"("moe_layer_start_index": 1)", R"("moe_layer_end_index": 1)", R"("moe_norm_min": 1e-12)",
               R"("tie_word_embeddings": true)", R"("rope_theta": 5e+05)"});
  expect_told(R"("model_type": "granitemoe")",
              {R"("num_local_experts": 8)", R"("num_experts_per_tok": 2)", R"("attention_multiplier": 1,)"});
  expect_told(R"("model_type": "minimax_m2", "rotary_dim": 64)",
              {R"("num_local_experts": 256)", R"("head_dim": 128)", R"("partial_rotary_factor": 0.5)",
               R"("rotary_dim": 64)", R"("rope_theta": 5e+06)"});
  expect_told(R"("model_type": "flex_olmo")",
              {R"("num_experts": 7)", R"("num_experts_per_tok": 5)", R"("rope_theta": 5e+05)"});
  expect_told(R"("model_type": "hunyuan_v1_moe")",
              {R"("moe_topk": 1)", R"("num_experts": 1)", R"("sep_token_id": 4)", R"("head_dim": 8)"});
}

// Sums of weights that are large, and such that are less than the least of what they are divided by.
TEST(RoutedFamilies, WeightsAreDividedByTheirSumButByNoLessThanTheFloor) {
  const Tensor logits = at::tensor({4.0, 4.0, 0.0, 0.0}).view({1, 4}), far = at::tensor({0.0, 0.0, 9.0, 9.0});
  const ops::GroupedRule rule{.per_token = 2, .normalise = true, .floor = 0.5, .floor_is_least = true};
  const Tensor usual = ops::choose_by_groups(logits, {}, rule, false).weight_NK;
  EXPECT_NEAR(usual.sum().item<double>(), 1, 1e-6);
  const Tensor small = ops::choose_by_groups(logits, far, rule, false).weight_NK;  // of the unlikely ones
  EXPECT_NEAR(small[0][0].item<double>(), 2 * logits.softmax(-1)[0][2].item<double>(), 1e-7);
}

// A correction moves as it is shaped: [1, E] in ERNIE, [E] in MiniMax.
TEST(RoutedFamilies, CorrectionsFollowTheTokens) {
  for (const char* more : {R"("model_type": "ernie4_5_moe", "moe_num_experts": 8, "moe_k": 2)",
                           R"("model_type": "minimax_m2", "num_local_experts": 8, "num_experts_per_tok": 2)"}) {
    const auto model = kSmallRouted.with(more + std::string(R"(, "router_bias_update_rate": 0.01)"));
    init_weights(*model, 3, Precision::bf16);
    Weight* bias = nullptr;
    model->each_weight([&](const std::string& name, Weight& weight) {
      if (name.ends_with("e_score_correction_bias")) bias = &weight;
    });
    ASSERT_TRUE(bias && bias->is_buffer()) << more;
    Batch batch;
    batch.ids_BT = at::arange(64, at::kLong).view({2, 32});
    Pass pass(batch);
    pass.training = true;
    model->forward(batch, pass);
    const Tensor seen = pass.observed.at(bias);
    ASSERT_EQ(seen.sizes(), bias->use().sizes()) << more;
    EXPECT_EQ(seen.sum().item<double>(), 2 * 64);
    bias->update_buffer(seen);
    EXPECT_TRUE(bias->use().equal(at::where(seen < 16, 0.01, at::where(seen > 16, -0.01, 0.0)).to(at::kFloat)));
    EXPECT_EQ(model->hf_config().find("router_bias_update_rate")->text(), "0.01");
  }
}

TEST(RoutedFamilies, ErniesLayersThatGuessFurtherTokensArePassedOver) {
  const TempFolder root;
  const Golden golden("ernie4_5_moe", kDecoders);
  std::filesystem::copy(golden.folder / "config.json", root / "config.json");
  auto tensors = read_all(golden.folder / "model.safetensors");
  tensors["model.mtp_block.0.mlp.up_proj.weight"] = at::ones({2, 2});
  tensors["model.mtp_linear_proj.0.weight"] = at::ones({2, 2});
  write_tensors(root / "model.safetensors", tensors);
  const std::string file = root / "config.json";
  const auto model = build_model(config::read_file(file), file);
  load_weights(*model, root.path(), Precision::fp32);
  expect_close(model->causal_lm()->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1), golden["logits"],
               1e-5 * largest(golden["logits"]), "logits");
}

TEST(RoutedFamilies, HaveNoClassifierWhereTransformersHasNone) {
  for (const auto& [type, name] : {std::pair{"dots1", "Dots1"},
                                   {"ernie4_5_moe", "Ernie4_5_Moe"},
                                   {"granitemoe", "GraniteMoe"},
                                   {"minimax_m2", "MiniMaxM2"},
                                   {"flex_olmo", "FlexOlmo"}}) {
    const std::string more = std::string(type) == "dots1" ? kDots : std::string("\"model_type\": \"") + type + "\", ";
    EXPECT_NE(kSmallRouted.problem_with(more + R"("architectures": [")" + name + R"(ForSequenceClassification"])")
                  .find(std::string("transformers has no classifier of type ") + type),
              std::string::npos);
  }
  const auto hunyuan = kSmallRouted.with(R"("model_type": "hunyuan_v1_moe", "id2label": {"0": "a", "1": "b"},
                                    "architectures": ["HunYuanMoEV1ForSequenceClassification"])");
  EXPECT_TRUE(hunyuan->classifier());
}

}  // namespace
}  // namespace hone::test
