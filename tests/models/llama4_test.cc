// Llama 4's configuration, and its chunks: what lies in another one is not seen. What it computes:
// decoders_golden_test.cc.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/documents.h"
#include "models/golden_checks.h"
#include "models/small_config.h"
#include "nn/kv_cache.h"
#include "nn/lora.h"

namespace hone::test {
namespace {

const SmallConfig kLlama4(R"({"model_type": "llama4_text", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 12,
      "intermediate_size_mlp": 20, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
      "head_dim": 8, "num_local_experts": 3})");

TEST(Llama4Configs, WhatTheyCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("no_rope_layers": [1, 1])", "no_rope_layers: got 2 entries, expected num_hidden_layers (4)"},
      {R"("no_rope_layers": [1, 1, 1, 2])", "no_rope_layers.3: got 2"},
      {R"("layer_types": ["full_attention"])", "layer_types: got 1 entries, expected num_hidden_layers (4)"},
      {R"("layer_types": ["full_attention", "full_attention", "full_attention", "sliding_attention"])",
       "layer_types.3: got \"sliding_attention\", expected chunked_attention or full_attention"},
      {R"("attention_chunk_size": null, "layer_types": ["full_attention", "full_attention", "chunked_attention",
          "full_attention"])",
       "attention_chunk_size: got null, expected a number, as layer_types.2 is chunked_attention"},
      {R"("attention_chunk_size": 0)", "attention_chunk_size: got 0"},
      {R"("moe_layers": [4])", "moe_layers.0: got 4, expected a layer from 0 to 3"},
      {R"("num_experts_per_tok": 4)", "num_experts_per_tok: got 4"},
      {R"("attn_temperature_tuning": "some")", "attn_temperature_tuning: expected true or false"},
      {R"("architectures": ["Llama4ForSequenceClassification"])", "architectures: transformers has no classifier"}};
  for (const auto& [json, expected] : cases) {
    const std::string problem = kLlama4.problem_with(json);
    EXPECT_NE(problem.find(expected), std::string::npos) << json << "\n gave: " << problem;
    EXPECT_TRUE(problem.starts_with("1 problem in config.json\n")) << problem;
  }
}

// What says which layers are of which kind, when nothing is said.
TEST(Llama4Configs, AbsentKeysMeanWhatTheyDoInTransformers) {
  const auto config = nlohmann::json::parse(config::to_json(kLlama4.with(R"("attn_temperature_tuning": 4)")->hf_config(), -1));
  EXPECT_EQ(config.at("no_rope_layers"), nlohmann::json({1, 1, 1, 0}));
  EXPECT_EQ(config.at("moe_layers"), nlohmann::json({0, 1, 2, 3}));
  EXPECT_EQ(config.at("layer_types"), nlohmann::json({"chunked_attention", "chunked_attention", "chunked_attention",
                                                      "full_attention"}));
  EXPECT_EQ(config.at("attention_chunk_size"), 8192);
  EXPECT_EQ(config.at("attn_temperature_tuning"), true);
  EXPECT_EQ(config.at("rope_parameters").at("rope_theta"), 500000.0);
}

std::unique_ptr<Model> all_in_chunks() {
  auto model = kLlama4.with(R"("attention_chunk_size": 5, "no_rope_layers": [1, 1, 1, 1], "initializer_range": 0.5)");
  init_weights(*model, 3, Precision::fp64);
  return model;
}
Tensor logits_of(const Model& model, const Tensor& ids_T) {
  Batch batch;
  batch.ids_BT = ids_T.unsqueeze(0);
  return model.causal_lm()->logits(batch)[0];
}

// Rotations are of distances: a chunk alone is what it is behind others.
TEST(Llama4, AChunkIsAsIfItWereAlone) {
  const auto model = all_in_chunks();
  const Tensor ids_T = at::arange(17).mul(7).remainder(40), all = logits_of(*model, ids_T);
  for (const std::int64_t begin : {0, 5, 10, 15}) {
    const std::int64_t end = std::min<std::int64_t>(begin + 5, 17);
    expect_close(all.slice(0, begin, end), logits_of(*model, ids_T.slice(0, begin, end)), 1e-5, std::to_string(begin));
  }
}

// In pieces that end within chunks, at their ends, and behind them.
TEST(Llama4, TheCacheGoesOnInChunks) {
  const at::NoGradGuard no_graph;
  auto model = kLlama4.with(R"("attention_chunk_size": 5, "floor_scale": 4, "initializer_range": 0.5)");
  init_weights(*model, 3, Precision::fp64);
  const Tensor ids_T = at::arange(17).mul(7).remainder(40), whole = logits_of(*model, ids_T);
  for (const std::vector<std::int64_t>& ends : {std::vector<std::int64_t>{3, 5, 6, 7, 14, 17}, {12, 13, 15, 16, 17}}) {
    nn::KvCache cache(model->causal_lm()->cache_spec(), 1);
    std::int64_t done = 0;
    for (const std::int64_t end : ends) {
      Batch batch;
      batch.ids_BT = ids_T.slice(0, done, end).unsqueeze(0);
      batch.docs = {{.row = 0, .end = static_cast<std::int32_t>(end - done)}};
      Pass pass(batch);
      pass.cache = &cache;
      const hone::Output output = model->forward(batch, pass);
      const Tensor made = model->causal_lm()->head().logits(output.hidden_BTD[0], pass);
      expect_close(made, whole.slice(0, done, end), 1e-5, std::to_string(end));
      done = end;
    }
  }
}

// Experts are one tensor, and take no adapter.
TEST(Llama4, AdaptersAreOfLinearLayers) {
  const auto model = kLlama4.with(R"("interleave_moe_layer_step": 2)");
  init_weights(*model, 1, Precision::fp32);
  LoraConfig config;
  config.targets = {"all-linear"};
  apply_lora(*model, config, 1);
  std::set<std::string> ends;
  each_adapter(*model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter&) {
    ends.insert(module.substr(module.find("layers.") + 9));
  });
  EXPECT_EQ(ends, (std::set<std::string>{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                         "feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"}));
}

}  // namespace
}  // namespace hone::test
