// Gemma 3n's configuration, what published folders say, and what its streams become where nothing is scaled. What it
// computes: decoders_golden_test.cc.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "models/by_cache.h"
#include "models/small_config.h"
#include "models/write_tensors.h"

namespace hone::test {
namespace {

const SmallConfig kSmallGemma3n(R"({"model_type": "gemma3n_text", "vocab_size": 32, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
      "head_dim": 8, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 30, "laurel_rank": 3,
      "num_kv_shared_layers": 0})");

TEST(Gemma3nConfigs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("intermediate_size": [24, 24])",
       "intermediate_size: got 2 numbers, expected one, or num_hidden_layers (4)"},
      {R"("activation_sparsity_pattern": [0.5])",
       "activation_sparsity_pattern: got 1 numbers, expected num_hidden_layers (4)"},
      {R"("altup_active_idx": 4)", "altup_active_idx: got 4, expected less than altup_num_inputs (4)"},
      {R"("num_kv_shared_layers": 4)", "num_kv_shared_layers: got 4, expected less than num_hidden_layers (4)"},
      {R"("hidden_size": 17)", "hidden_size: got 17, expected a multiple of num_attention_heads (2)"},
      {R"("rope_scaling": {"rope_type": "linear"})", "rope_scaling: got a section, expected null"},
      {R"("layer_types": ["full_attention"])", "layer_types: got 1 entries, expected num_hidden_layers (4)"}};
  kSmallGemma3n.expect_problems(cases);
  EXPECT_THAT(kSmallGemma3n.problem_with("", {.labels = {"a", "b"}}),
              testing::HasSubstr("no classifier of type gemma3n_text"));
}

TEST(Gemma3nConfigs, AbsentKeysMeanWhatTheyDoInTransformers) {
  Problems problems;
  const std::string json = R"({"num_hidden_layers": 11, "num_kv_shared_layers": 0, "model_type": "gemma3n_text"})";
  const auto node = build_model(config::parse_json(json, "config.json", problems), "config.json")->hf_config();
  const auto told = nlohmann::json::parse(config::to_json(node, -1));
  EXPECT_EQ(told["intermediate_size"], std::vector<int>(11, 16384));
  EXPECT_EQ(told["activation_sparsity_pattern"][9], 0.95);
  EXPECT_TRUE(told["activation_sparsity_pattern"][10].is_number_float());  // transformers takes no other
  EXPECT_EQ(told["layer_types"][4], "full_attention");
  EXPECT_EQ(told["layer_types"][10], "sliding_attention");
  EXPECT_EQ(told["rope_parameters"]["full_attention"]["rope_theta"], 1e6);
  EXPECT_EQ(told["rope_parameters"]["sliding_attention"]["rope_theta"], 1e4);
  EXPECT_EQ(told["altup_num_inputs"], 4);
}

// A folder of texts, pictures and sounds as it is published, of which the texts' half is read: names and keys of
// transformers 4.53, and keys and values of layers that use those of others.
TEST(Gemma3n, TheTextsOfPublishedFoldersAreRead) {
  const Golden golden("gemma3n", kDecoders);
  auto texts = nlohmann::json::parse(content_of(golden.folder / "config.json"));
  texts.erase("rope_parameters"), texts.erase("dtype"), texts.erase("architectures");
  texts.update(nlohmann::json::parse(R"({"rope_theta": 100.0, "rope_local_base_freq": 50.0, "rope_scaling": null,
      "altup_lr_multiplier": 1.0, "query_pre_attn_scalar": 256, "torch_dtype": "bfloat16"})"));
  const nlohmann::json config{{"model_type", "gemma3n"}, {"text_config", texts}, {"vision_config", {{"depth", 1}}}};
  const TempFolder root;
  root.write("config.json", config.dump());
  std::map<std::string, Tensor> tensors{{"model.vision_tower.x", at::ones({2})}};
  for (const auto& [name, tensor] : read_all(golden.folder / "model.safetensors"))
    tensors["model.language_model." + name.substr(6)] = tensor;
  const std::string shared = "model.language_model.layers.5.self_attn.";
  tensors[shared + "k_proj.weight"] = tensors[shared + "v_proj.weight"] = at::ones({20, 24});
  tensors[shared + "k_norm.weight"] = at::ones({10});
  write_tensors(root / "model.safetensors", tensors);
  const auto model = load_model(root.path().string(), Precision::fp32);
  const Tensor logits = model->causal_lm()->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1);
  expect_close(logits, golden["logits"], 1e-5 * std::max(1.0, largest(golden["logits"])), "logits");
}

// What a layer's input meets is the stream itself.
TEST(Gemma3n, CorrectedStreamsMayStayAsTheyAre) {
  const Golden golden("gemma3n", kDecoders);
  auto json = nlohmann::json::parse(content_of(golden.folder / "config.json"));
  std::map<std::string, Tensor> tensors = read_all(golden.folder / "model.safetensors");
  for (auto& [name, tensor] : tensors)
    if (name.ends_with("correct_output_scale")) tensor = at::ones_like(tensor);
  const auto logits_with = [&](bool scales) {
    json["altup_correct_scale"] = scales;
    const TempFolder root;
    root.write("config.json", json.dump());
    write_tensors(root / "model.safetensors", tensors);
    return load_model(root.path().string(), Precision::fp32)->causal_lm()->logits(golden.batch());
  };
  EXPECT_TRUE(logits_with(true).equal(logits_with(false)));
}

}  // namespace
}  // namespace hone::test
