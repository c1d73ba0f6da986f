// LFM2's configuration, its fresh weights, what its convolutions keep in generation, and the texts' half of LFM2-VL's
// config.json. What it computes: decoders_golden_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/texts_half.h"
#include "hone/adapter.h"
#include "models/by_cache.h"
#include "models/small_config.h"
#include "nn/lora.h"

namespace hone::test {
namespace {

const SmallConfig kLfm2(R"({"model_type": "lfm2", "vocab_size": 90, "hidden_size": 24,
      "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2})");

TEST(Lfm2Configs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("layer_types": ["conv"])", "layer_types: got 1 entries, expected num_hidden_layers (3)"},
      {R"("layer_types": ["conv", "conv", "linear_attention"])",
       "layer_types.2: got \"linear_attention\", expected full_attention or conv"},
      {R"("full_attn_idxs": [0, 3])", "full_attn_idxs.1: got 3, expected a layer from 0 to 2"},
      {R"("conv_L_cache": 1)", "conv_L_cache: got 1"},
      {R"("rms_norm_eps": 1e-5)", "rms_norm_eps: lfm2 has no such key"},
      {R"("attention_dropout": 0.1)", "attention_dropout: lfm2 has no such key"},
      {R"("use_sliding_window": true)", "use_sliding_window: lfm2 has no such key"},
      {R"("hidden_act": "gelu")", "hidden_act: got gelu, expected silu"},
      {R"("block_use_swiglu": false)", "block_use_swiglu: got false, expected true"},
      {R"("use_pos_enc": false)", "use_pos_enc: got false, expected true"},
      {R"("theta": 10000)", "theta: got 10000, expected rope_theta (1000000)"},
      {R"("intermediate_size": 3, "block_ffn_dim_multiplier": 0.1)", "intermediate_size: the MLP's width, 0"},
      {R"("block_multiple_of": 2147483647, "num_hidden_layers": 9000)", "intermediate_size: "},
      {R"("architectures": ["Lfm2ForSequenceClassification"])", "architectures: transformers has no classifier"},
      {R"("num_experts": 4)", "num_experts: no such option"},
      {R"("model_type": "lfm2_moe")", "layer_types: missing; lfm2_moe has no default for it"},
      {R"("model_type": "lfm2_moe", "layer_types": ["conv", "conv", "conv"], "full_attn_idxs": [1])",
       "full_attn_idxs: no such option"},
      {R"("model_type": "lfm2_moe", "layer_types": ["conv", "conv", "conv"], "num_experts": 3)",
       "num_experts_per_tok: got 4, expected at most as many as there are experts (3)"}};
  kLfm2.expect_problems(cases);
}

TEST(Lfm2Configs, AllLayersHaveAttentionUnlessItIsSaid) {
  EXPECT_EQ(kLfm2.with("")->attention().size(), 3u);
  EXPECT_EQ(kLfm2.with(R"("full_attn_idxs": [2])")->attention().size(), 1u);
  EXPECT_EQ(kLfm2.with(R"("full_attn_idxs": [2], "layer_types": ["conv", "conv", "conv"])")->attention().size(), 0u);
  EXPECT_TRUE(kLfm2.with("")->shares_prefixes());
  EXPECT_FALSE(kLfm2.with(R"("full_attn_idxs": [2])")->shares_prefixes());  // a convolution is of one document
}

// The numbers are transformers'.
TEST(Lfm2Configs, TheMlpIsAsWideAsInTransformers) {
  const struct {
    std::int64_t given;
    double times;
    std::int64_t multiple;
    bool adjusts;
    std::int64_t expected;
  } cases[] = {{12288, 1, 256, true, 8192}, {6656, 1, 256, true, 4608}, {10752, 1, 256, true, 7168},
               {40, 1.3, 8, true, 40},      {100, 1, 7, true, 70},      {101, 1, 256, false, 101}};
  for (const auto& [given, times, multiple, adjusts, expected] : cases) {
    const auto model = kLfm2.with(fmt::format(
        R"("intermediate_size": {}, "block_ffn_dim_multiplier": {}, "block_multiple_of": {},
           "block_auto_adjust_ff_dim": {})",
        given, times, multiple, adjusts));
    model->each_weight([&](const std::string& name, const Weight& weight) {
      if (name == "model.layers.0.feed_forward.w1.weight") {
        EXPECT_EQ(weight.shape()[0], expected);
      }
    });
  }
}

// Keys of LFM2's published files.
TEST(Lfm2Configs, OfPublishedFilesAreRead) {
  EXPECT_EQ(kLfm2.problem_with(R"("architectures": ["Lfm2ForCausalLM"], "block_auto_adjust_ff_dim": true, "block_dim": 24,
      "block_ff_dim": 48, "block_ffn_dim_multiplier": 1.0, "block_mlp_init_scale": 1.0, "block_multiple_of": 256,
      "block_norm_eps": 1e-05, "block_out_init_scale": 1.0, "block_use_swiglu": true, "block_use_xavier_init": true,
      "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "conv_dim": 24, "conv_dim_out": 24,
      "conv_use_xavier_init": true, "eos_token_id": 7, "full_attn_idxs": null, "layer_types": ["conv", "conv",
      "full_attention"], "initializer_range": 0.02, "max_position_embeddings": 128000, "norm_eps": 1e-05,
      "num_heads": 4, "pad_token_id": 0, "rope_theta": 1000000.0, "theta": 1000000.0, "tie_embedding": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0", "use_cache": true, "use_pos_enc": true)"),
            "no error");
}

// As Lfm2Config(num_hidden_layers=2) writes it.
TEST(Lfm2Configs, AbsentKeysMeanWhatTheyDoInTransformers) {
  Problems problems;
  const auto node = config::parse_json(R"({"model_type": "lfm2", "num_hidden_layers": 2})", "config.json", problems);
  const std::string made = config::to_json(build_model(node, "config.json")->hf_config(), -1);
  EXPECT_EQ(nlohmann::json::parse(made).dump(1), nlohmann::json::parse(R"({"architectures": ["Lfm2ForCausalLM"],
      "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "bos_token_id": 1,
      "conv_L_cache": 3, "conv_bias": false, "eos_token_id": 2, "full_attn_idxs": [0, 1], "hidden_size": 2560,
      "initializer_range": 0.02, "intermediate_size": 12288, "layer_types": ["full_attention", "full_attention"],
      "max_position_embeddings": 128000, "model_type": "lfm2", "norm_eps": 1e-05, "num_attention_heads": 32,
      "num_hidden_layers": 2, "num_key_value_heads": 8,
      "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "tie_word_embeddings": true,
      "use_cache": true, "vocab_size": 65536})")
                                                     .dump(1));
}

// As Lfm2MoeConfig(num_hidden_layers=2, layer_types=["conv", "full_attention"]) writes it.
TEST(Lfm2Configs, AbsentKeysOfExpertsMeanWhatTheyDoInTransformers) {
  Problems problems;
  const auto node = config::parse_json(
      R"({"model_type": "lfm2_moe", "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]})", "config.json",
      problems);
  const std::string made = config::to_json(build_model(node, "config.json")->hf_config(), -1);
  EXPECT_EQ(nlohmann::json::parse(made).dump(1), nlohmann::json::parse(R"({"architectures": ["Lfm2MoeForCausalLM"],
      "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "eos_token_id": 2, "hidden_size": 2048,
      "initializer_range": 0.02, "intermediate_size": 7168, "layer_types": ["conv", "full_attention"],
      "max_position_embeddings": 128000, "model_type": "lfm2_moe", "moe_intermediate_size": 1792, "norm_eps": 1e-05,
      "norm_topk_prob": true, "num_attention_heads": 32, "num_dense_layers": 2, "num_experts": 32,
      "num_experts_per_tok": 4, "num_hidden_layers": 2, "num_key_value_heads": 8, "output_router_logits": false,
      "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "routed_scaling_factor": 1.0,
      "tie_word_embeddings": true, "use_cache": true, "use_expert_bias": true, "vocab_size": 65536})")
                                                     .dump(1));
}

TEST(Lfm2, FreshWeightsAreThoseOfTransformers) {
  const auto model = kLfm2.with(R"("hidden_size": 200, "conv_bias": true, "full_attn_idxs": [1])");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  const std::string layer = "model.layers.0.conv.";
  for (const char* name : {"conv.weight", "in_proj.weight", "out_proj.weight"})
    EXPECT_NEAR(weights.at(layer + name).std().item<double>(), 0.02, 0.002) << name;
  for (const char* name : {"conv.bias", "in_proj.bias", "out_proj.bias"})
    EXPECT_EQ(largest(weights.at(layer + name)), 0) << name;
  EXPECT_TRUE(weights.at("model.layers.1.self_attn.q_layernorm.weight").equal(at::ones({50})));
  EXPECT_TRUE(weights.at("model.embedding_norm.weight").equal(at::ones({200})));
}

TEST(Lfm2, ConvolutionsKeepTheNewestTokensOfTheirRows) {
  // Rows and bytes; two layers with three tokens of 24 channels, one with keys and values of two heads, with room for
  // 16 tokens.
  expect_rows_keep_their_past(*Golden("lfm2", kDecoders).model(), 3 * 4 * (2 * 3 * 24 + 2 * 2 * 16 * 6));
}

// A step that goes by the cache's keys and values alone would lose what convolutions keep.
TEST(Lfm2, NoStepGoesWithoutItsConvolutions) {
  const at::NoGradGuard no_graph;
  const auto model = kLfm2.with(R"("full_attn_idxs": [1])");
  init_weights(*model, 1, Precision::fp32);
  nn::KvCache cache(model->causal_lm()->cache_spec(), 1);
  Batch batch;
  batch.ids_BT = at::arange(5).view({1, 5});
  batch.docs = {{.row = 0, .end = 5}};
  Pass pass(batch);
  pass.cache = &cache;
  model->forward(batch, pass);
  EXPECT_EQ(cache.room_for_one_each(), nullptr);
  EXPECT_FALSE(cache.has_room_for_one_each());
}

// As PEFT's all-linear takes them.
TEST(Lfm2, AdaptersAreOfItsLinearLayers) {
  const auto model = kLfm2.with(R"("full_attn_idxs": [1])");
  init_weights(*model, 1, Precision::fp32);
  LoraConfig config;
  config.targets = {"all-linear"};
  apply_lora(*model, config, 1);
  std::set<std::string> ends;
  each_adapter(*model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter&) {
    ends.insert(module.substr(module.find("layers.")));
  });
  std::set<std::string> expected;
  for (const char* layer : {"0", "1", "2"})
    for (const char* name : {"w1", "w2", "w3"}) expected.insert(fmt::format("layers.{}.feed_forward.{}", layer, name));
  for (const char* layer : {"0", "2"})
    for (const char* name : {"in_proj", "out_proj"}) expected.insert(fmt::format("layers.{}.conv.{}", layer, name));
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
    expected.insert(fmt::format("layers.1.self_attn.{}", name));
  EXPECT_EQ(ends, expected);
}

// transformers has experts in one tensor, under another name than files: PEFT could not read such an adapter.
TEST(Lfm2, ExpertsTakeNoAdapters) {
  const auto model = Golden("lfm2_moe", kDecoders).model();
  LoraConfig config;
  config.targets = {"w1"};
  try {
    apply_lora(*model, config, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not for LFM2's experts"), std::string::npos) << error.what();
  }
}

// Without a loss that balances them: an expert that had fewer tokens than the mean is chosen sooner.
TEST(Lfm2, CorrectionsOfExpertsFollowTheirTokens) {
  const auto corrections = [](double rate) {
    const auto model = kLfm2.with(fmt::format(
        R"("model_type": "lfm2_moe", "layer_types": ["conv", "conv", "conv"], "num_experts": 8,
           "num_experts_per_tok": 2, "router_bias_update_rate": {})",
        rate));
    init_weights(*model, 1, Precision::fp32);
    Batch batch;
    batch.ids_BT = at::arange(80).view({2, 40});
    batch.docs = {{.row = 0, .end = 40}, {.row = 1, .end = 40}};
    Pass pass(batch);
    pass.training = true;
    model->forward(batch, pass);
    Tensor made;
    model->each_weight([&](const std::string& name, Weight& weight) {
      if (name != "model.layers.2.feed_forward.expert_bias") return;
      if (pass.observed.contains(&weight)) weight.update_buffer(pass.observed.at(&weight));
      made = weight.use();
    });
    return made;
  };
  EXPECT_EQ(largest(corrections(0)), 0);
  const Tensor made = corrections(0.5);
  EXPECT_EQ(largest(made), 0.5);
  EXPECT_TRUE(made.max().item<double>() > 0 && made.min().item<double>() < 0);
}

// In both halves the head may be said to be tied by two names; above counts, and of its two names the shorter.
TEST(Lfm2, TextsHalfIsTiedAsTheClassSays) {
  const auto tied = [](const std::string& above, const std::string& below) {
    Problems problems;
    const std::string json = fmt::format(
        R"({{"model_type": "lfm2_vl", {}"vision_config": {{}}, "text_config": {{"model_type": "lfm2", {}
            "num_hidden_layers": 1}}}})",
        above, below);
    const auto model =
        build_model(config::texts_half(config::parse_json(json, "config.json", problems)), "config.json");
    return model->hf_config().find("tie_word_embeddings")->text();
  };
  EXPECT_EQ(tied("", ""), "true");
  EXPECT_EQ(tied(R"("tie_word_embeddings": false, )", R"("tie_embedding": true, )"), "false");
  EXPECT_EQ(tied(R"("tie_embedding": false, )", R"("tie_word_embeddings": true, )"), "false");
  EXPECT_EQ(tied(R"("tie_embedding": true, "tie_word_embeddings": false, )", R"("tie_embedding": false, )"), "true");
}

}  // namespace
}  // namespace hone::test
