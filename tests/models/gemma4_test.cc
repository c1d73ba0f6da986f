// Gemma 4's configuration and fresh weights, what published folders hold besides, and what its layers share in
// generation. What it computes: decoders_golden_test.cc.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hub/more_rows.h"
#include "models/by_cache.h"
#include "models/small_config.h"
#include "models/write_tensors.h"

namespace hone::test {
namespace {

const SmallConfig kSmallGemma4(R"({"model_type": "gemma4_text", "vocab_size": 32, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
      "head_dim": 8, "global_head_dim": 12, "hidden_size_per_layer_input": 0,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})");

TEST(Gemma4Configs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("use_bidirectional_attention": "all")", "use_bidirectional_attention: got all, expected null or vision"},
      {R"("num_kv_shared_layers": 4)", "num_kv_shared_layers: got 4, expected less than num_hidden_layers (4)"},
      {R"("num_kv_shared_layers": 3)", "num_kv_shared_layers: got 3, but layer 1 has none of its type before it"},
      {R"("per_layer_config": {"1": {"head_dim": 12}})",
       "per_layer_config: differs in layers of type full_attention, expected the same of all of them"},
      {R"("per_layer_config": {"4": {"head_dim": 12}})", "per_layer_config.4: expected the number of a layer, 0 to 3"},
      {R"("per_layer_config": {"1": {"hidden_size": 12}})", "per_layer_config.1.hidden_size: got a key that differs"},
      {R"("per_layer_config": [])", "per_layer_config: expected a section for each layer"},
      {R"("global_head_dim": 7)", "head_dim: got 7, expected an even number"},
      {R"("num_attention_heads": 3, "attention_k_eq_v": true, "num_global_key_value_heads": 2)",
       "num_attention_heads: got 3, expected a multiple of a layer's key and value heads (2)"},
      {R"("hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 31)",
       "vocab_size_per_layer_input: got 31, expected vocab_size (32) or more"},
      {R"("enable_moe_block": true, "num_experts": 2, "top_k_experts": 1)", "moe_intermediate_size: missing"},
      {R"("enable_moe_block": true, "num_experts": 2, "top_k_experts": 3, "moe_intermediate_size": 4)",
       "top_k_experts: got 3, expected at most num_experts (2)"},
      {R"("rope_theta": 3)", "rope_theta: gemma4_text has no such key"},
      {R"("rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 10,
           "partial_rotary_factor": 1.5}})",
       "partial_rotary_factor: got 1.5, expected 0 to 1"},
      {R"("layer_types": ["full_attention"])", "layer_types: got 1 entries, expected num_hidden_layers (4)"},
      {R"("final_logit_softcapping": 0)", "final_logit_softcapping: got 0"},
      {R"("model_type": "gemma4_unified_text", "hidden_size_per_layer_input": 4)",
       "hidden_size_per_layer_input: gemma4_unified_text has no such key"},
      {R"("model_type": "gemma4_unified_text", "enable_moe_block": true)",
       "enable_moe_block: gemma4_unified_text has no such key"},
      {R"("architectures": ["Gemma4TextForSequenceClassification"])",
       "architectures: transformers has no classifier of type gemma4_text"}};
  kSmallGemma4.expect_problems(cases);
  EXPECT_THAT(kSmallGemma4.problem_with("", {.labels = {"a", "b"}}),
              testing::HasSubstr("no classifier of type gemma4_text"));
}

// Keys of published files, in the form that they had first, and of those that other readers leave empty.
TEST(Gemma4Configs, OfPublishedFilesAreRead) {
  const auto model = kSmallGemma4.with(R"("attention_bias": false, "attention_k_eq_v": false, "dtype": "bfloat16",
      "enable_moe_block": false, "expert_intermediate_size": null, "final_logit_softcapping": 30.0,
      "global_head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "hidden_size_per_layer_input": 4,
      "moe_intermediate_size": null, "num_experts": null, "num_global_key_value_heads": null,
      "num_kv_shared_layers": 2, "top_k_experts": null, "use_bidirectional_attention": null, "use_cache": true,
      "use_double_wide_mlp": true, "vocab_size_per_layer_input": 32, "rope_parameters": {
      "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
      "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}})");
  std::vector<std::int64_t> sizes, kept;
  for (const AttentionLayer& layer : model->attention()) sizes.push_back(layer.head_size);
  for (const CacheSpec::Layer& layer : model->causal_lm()->cache_spec().layers) kept.push_back(layer.kv_heads);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{8, 16, 8, 16}));
  EXPECT_EQ(kept, (std::vector<std::int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(kSmallGemma4.problem_with(R"("model_type": "gemma4_unified_text", "enable_moe_block": false,
      "hidden_size_per_layer_input": 0, "use_bidirectional_attention": "vision")"),
            "no error");
}

TEST(Gemma4Configs, AbsentKeysMeanWhatTheyDoInTransformers) {
  const auto told = [](const std::string& type) {
    Problems problems;
    const std::string json = R"({"num_hidden_layers": 7, "model_type": ")" + type + "\"}";
    return config::to_json(build_model(config::parse_json(json, "config.json", problems), "config.json")->hf_config(),
                           -1);
  };
  for (const char* part :
       {R"("hidden_size_per_layer_input": 256)", R"("vocab_size_per_layer_input": 262144)", R"("sliding_window": 512)",
        R"("per_layer_config": {"5": {"head_dim": 512}, "6": {"head_dim": 512}})", R"("final_logit_softcapping": null)",
        R"("rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1e+06, )"
        R"("rope_type": "proportional"}, "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}})",
        R"("num_experts": null)", R"("use_bidirectional_attention": null)", R"("max_position_embeddings": 131072)"})
    EXPECT_THAT(told("gemma4_text"), testing::HasSubstr(part));
  const std::string unified = told("gemma4_unified_text");
  for (const char* part : {R"("sliding_window": 1024)", R"("use_bidirectional_attention": "vision")",
                           R"("max_position_embeddings": 262144)", R"("architectures": ["Gemma4UnifiedForCausalLM"])"})
    EXPECT_THAT(unified, testing::HasSubstr(part));
  EXPECT_THAT(unified, testing::Not(testing::HasSubstr("per_layer_input")));
}

TEST(Gemma4, FreshWeightsAreThoseOfTransformers) {
  const auto model = kSmallGemma4.with(R"("hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 32,
      "enable_moe_block": true, "num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 64)");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  for (const char* one : {"layer_scalar", "router.scale", "router.per_expert_scale", "self_attn.k_norm.weight",
                          "post_per_layer_input_norm.weight", "pre_feedforward_layernorm_2.weight"}) {
    const Tensor& made = weights.at(std::string("model.layers.1.") + one);
    EXPECT_TRUE(made.equal(at::ones_like(made))) << one;
  }
  EXPECT_NEAR(weights.at("model.layers.0.experts.gate_up_proj").std().item<double>(), 0.02, 0.002);
  EXPECT_NEAR(weights.at("model.embed_tokens_per_layer.weight").std().item<double>(), 0.02, 0.004);
}

std::map<std::string, Tensor> tensors_of(const Golden& golden) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, tensor] : read_all(golden.folder / "model.safetensors")) all[name] = tensor;
  return all;
}

// As transformers before 5.24 wrote it, and with what layers that use others' keys and values had before.
TEST(Gemma4, FoldersAsPublishedAreRead) {
  const TempFolder root;
  for (const auto& [name, heads] : {std::pair{"gemma4", R"({"global_head_dim": 12})"},
                                    {"gemma4-global", R"({"global_head_dim": 12, "num_global_key_value_heads": 1})"}}) {
    SCOPED_TRACE(name);
    const Golden golden(name, kDecoders);
    auto json = nlohmann::json::parse(content_of(golden.folder / "config.json"));
    json.erase("per_layer_config");
    json.update(nlohmann::json::parse(heads));
    std::filesystem::create_directories(root / name);
    std::ofstream(root / name / "config.json") << json.dump();
    auto tensors = tensors_of(golden);
    if (json["num_kv_shared_layers"] == 3)
      for (const char* part : {"k_proj", "v_proj", "k_norm"})
        tensors[fmt::format("model.layers.3.self_attn.{}.weight", part)] = at::ones({2, 2});
    write_tensors(root / name / "model.safetensors", tensors);
    const auto model = load_model((root / name).string(), Precision::fp32);
    EXPECT_TRUE(
        require_causal_lm(*model, "a test").logits(golden.batch()).equal(golden.model()->logits(golden.batch())));
  }
}

TEST(Gemma4, TheCacheHoldsWhatIsSharedOnce) {
  // Rows and bytes; keys and values of two heads, of 10, 12 and 10 numbers, with room for 16 tokens; those of the other
  // three layers are theirs.
  expect_rows_keep_their_past(*Golden("gemma4", kDecoders).model(), 3 * 4 * 2 * 2 * 16 * (10 + 12 + 10));
}

// Both tables grow, where both have a row for each token.
TEST(Gemma4, TakesMoreTokens) {
  const auto model = Golden("gemma4-moe", kDecoders).model();
  const auto larger = hub::with_vocab_size(*model, 70);
  std::int64_t found = 0;
  for (const hub::SavedWeight& weight : hub::with_more_rows(*model, *larger, 64, 66)) {
    if (!weight.name.starts_with("model.embed_tokens")) continue;
    EXPECT_EQ(weight.value.size(0), 70) << weight.name;
    EXPECT_TRUE(weight.value[69].allclose(weight.value.narrow(0, 0, 64).mean(0))) << weight.name;
    ++found;
  }
  EXPECT_EQ(found, 2);
}

// Nobody trains it, and a pass does not change it.
TEST(Gemma4, LayerScalarsStay) {
  const auto model = Golden("gemma4", kDecoders).model();
  std::int64_t found = 0;
  model->each_weight([&](const std::string& name, Weight& weight) {
    if (!name.ends_with(".layer_scalar")) return;
    const Tensor before = weight.use().clone();
    weight.update_buffer({});
    EXPECT_TRUE(weight.is_buffer() && !weight.trainable() && weight.use().equal(before)) << name;
    ++found;
  });
  EXPECT_EQ(found, 6);
}

}  // namespace
}  // namespace hone::test
