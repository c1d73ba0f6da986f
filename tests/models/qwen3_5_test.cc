// Qwen3.5's configuration, its fresh weights, its memories in generation, and the texts' half of a model of texts and
// images. What it computes: decoders_golden_test.cc.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hone/generate.h"
#include "hub/fresh.h"
#include "hub/model_tensors.h"
#include "models/by_cache.h"
#include "models/small_config.h"
#include "models/write_tensors.h"

namespace hone::test {
namespace {

const SmallConfig kSmallQwen35(R"({"model_type": "qwen3_5_text", "vocab_size": 500, "hidden_size": 64,
      "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 8, "linear_value_head_dim": 4})");

TEST(Qwen35Configs, WhatItCannotBeIsAnError) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_hidden_layers": 2, "layer_types": ["linear_attention"])",
       "layer_types: got 1 entries, expected num_hidden_layers (2)"},
      {R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"])",
       "layer_types.0: got \"sliding_attention\", expected full_attention or linear_attention"},
      {R"("linear_num_value_heads": 3)",
       "linear_num_value_heads: got 3, expected a multiple of linear_num_key_heads (2)"},
      {R"("linear_conv_kernel_dim": 1)", "linear_conv_kernel_dim: got 1"},
      {R"("hidden_act": "gelu")", "hidden_act: got gelu, expected silu"},
      {R"("attn_output_gate": false)", "attn_output_gate: got false, expected true"},
      {R"("partial_rotary_factor": 0.2)", "partial_rotary_factor: got 0.2, expected a share of head_dim (16)"},
      {R"("use_sliding_window": true)", "use_sliding_window: qwen3_5_text has no such key"},
      {R"("hidden_size": 2000000000, "num_hidden_layers": 9000)", "hidden_size"}};
  kSmallQwen35.expect_problems(cases, /*alone=*/false);
}

TEST(Qwen35Configs, EveryFourthLayerHasAttentionUnlessItIsSaid) {
  EXPECT_EQ(kSmallQwen35.with(R"("num_hidden_layers": 9)")->attention().size(), 2u);
  EXPECT_EQ(kSmallQwen35.with(R"("num_hidden_layers": 9, "full_attention_interval": 3)")->attention().size(), 3u);
  EXPECT_EQ(kSmallQwen35.with(R"("num_hidden_layers": 9)")->memories().size(), 7u);
}

// Keys of Qwen3.5's published files.
TEST(Qwen35Configs, OfPublishedFilesAreRead) {
  EXPECT_EQ(kSmallQwen35.problem_with(R"("attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true,
      "dtype": "bfloat16", "eos_token_id": 2, "full_attention_interval": 4, "hidden_act": "silu",
      "initializer_range": 0.02, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144,
      "mlp_only_layers": [], "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false,
      "num_hidden_layers": 4, "rms_norm_eps": 1e-06, "tie_word_embeddings": true, "use_cache": true,
      "mamba_ssm_dtype": "float32", "output_gate_type": "swish", "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
      "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25})"),
            "no error");
}

TEST(Qwen35, FreshWeightsAreThoseOfTransformers) {
  const auto model = kSmallQwen35.with(R"("num_hidden_layers": 4, "linear_num_value_heads": 200)");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  const std::string layer = "model.layers.0.linear_attn.";
  EXPECT_TRUE(weights.at(layer + "dt_bias").equal(at::ones({200})));
  EXPECT_TRUE(weights.at(layer + "norm.weight").equal(at::ones({4})));
  EXPECT_TRUE(weights.at("model.layers.3.self_attn.q_norm.weight").equal(at::zeros({16})));
  const Tensor rates = weights.at(layer + "A_log").exp();  // even from 0.01 to 16
  EXPECT_GE(rates.min().item<double>(), 0.01);
  EXPECT_LE(rates.max().item<double>(), 16);
  EXPECT_NEAR(rates.mean().item<double>(), 8, 1.2);
  EXPECT_NEAR(weights.at(layer + "conv1d.weight").std().item<double>(), 0.02, 0.002);
  EXPECT_NEAR(weights.at(layer + "out_proj.weight").std().item<double>(), 0.02, 0.002);
}

TEST(Qwen35, MemoriesGoWithTheirRows) {
  // Rows and bytes; three layers with four heads' memories and three tokens of 44 channels, one with keys and values of
  // two heads, with room for 16 tokens.
  expect_rows_keep_their_past(*Golden("qwen3_5", kDecoders).model(),
                              3 * 4 * (3 * (4 * 6 * 5 + 3 * 44) + 2 * 2 * 16 * 16));
}

// As transformers writes such folders: by names that say which half a tensor is of.
void write_with_images(const std::filesystem::path& folder, const Golden& golden, const std::string& type,
                       const std::string& texts, const std::string& images) {
  const auto text = nlohmann::json::parse(content_of(golden.folder / "config.json"));
  nlohmann::json config{{"model_type", type},
                        {"text_config", text},
                        {"vision_config", {{"depth", 1}}},
                        {"image_token_id", 60},
                        {"tie_word_embeddings", text["tie_word_embeddings"]}};
  config["text_config"]["tie_word_embeddings"] = !text["tie_word_embeddings"];  // the class's counts, which is above
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump();
  std::map<std::string, Tensor> tensors{{images + "patch_embed.weight", at::ones({2, 2})}};
  for (const auto& [name, tensor] : read_all(golden.folder / "model.safetensors"))
    tensors[name.starts_with("model.") ? texts + name.substr(6) : name] = tensor;
  if (type == "qwen3_5") tensors["mtp.norm.weight"] = at::ones({24});
  write_tensors(folder / "model.safetensors", tensors);
}

// The texts' half, of models that hone has as a whole, too, where it is asked for.
std::unique_ptr<Model> load_half(const std::filesystem::path& folder) {
  const std::string file = (folder / "config.json").string();
  auto model = build_model(hub::half_of(config::read_file(file), file), file);
  load_weights(*model, folder, Precision::fp32);
  return model;
}

TEST(TextsHalf, IsReadOfAModelOfTextsAndImages) {
  const TempFolder root;
  const struct {
    const char *golden, *type, *texts, *images;
  } cases[] = {{"qwen3_5", "qwen3_5", "model.language_model.", "model.visual."},
               {"qwen3_5-tied", "qwen3_5", "model.language_model.", "model.visual."},
               {"lfm2-adjusted", "lfm2_vl", "model.language_model.", "model.vision_tower."},
               {"ministral3", "mistral3", "language_model.model.", "vision_tower."},
               {"ministral3-plain", "mistral3", "model.language_model.", "model.vision_tower."}};
  for (const auto& [name, type, texts, images] : cases) {
    SCOPED_TRACE(name);
    const Golden golden(name, kDecoders);
    write_with_images(root / name, golden, type, texts, images);
    const auto model = load_half(root / name);
    EXPECT_TRUE(
        require_causal_lm(*model, "a test").logits(golden.batch()).equal(golden.model()->logits(golden.batch())));
    EXPECT_EQ(model->hf_config().find("model_type")->text(), golden.model()->hf_config().find("model_type")->text());
  }
}

// A head of its own beside one that is tied would be lost; a classifier's head is read.
TEST(TextsHalf, HeadsAreNotLost) {
  const TempFolder root;
  const Golden golden("qwen3_5-tied", kDecoders);
  write_with_images(root / "tied", golden, "qwen3_5", "model.language_model.", "model.visual.");
  auto tensors = read_all(root / "tied" / "model.safetensors");
  tensors["lm_head.weight"] = tensors.at("model.language_model.embed_tokens.weight") + 1;
  write_tensors(root / "tied" / "model.safetensors", tensors);
  try {
    load_half(root / "tied");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lm_head.weight: differs from"), std::string::npos) << error.what();
  }
  tensors.erase("lm_head.weight");
  tensors["score.weight"] = at::ones({2, 24});
  write_tensors(root / "tied" / "model.safetensors", tensors);
  auto config = nlohmann::json::parse(content_of(root / "tied" / "config.json"));
  config["architectures"] = {"Qwen3_5ForSequenceClassification"};
  config["id2label"] = {{"0", "bad"}, {"1", "good"}};
  std::ofstream(root / "tied" / "config.json") << config.dump();
  const auto model = load_model((root / "tied").string(), Precision::fp32);
  ASSERT_TRUE(model->classifier());
  EXPECT_EQ(model->classifier()->labels(), (std::vector<std::string>{"bad", "good"}));
}

TEST(TextsHalf, TensorsAreTheModels) {
  const TempFolder root;
  write_with_images(root / "model", Golden("gemma3", kDecoders), "gemma3", "language_model.model.", "vision_tower.");
  const hub::ModelTensors tensors(root / "model", /*whole=*/false);
  for (const auto& [name, place] : tensors.all()) EXPECT_TRUE(name.starts_with("model.")) << name;
  EXPECT_EQ(tensors.left_out(), std::vector<std::string>{"vision_tower.patch_embed.weight"});
  EXPECT_EQ(hub::name_in_half("model.language_model.layers.0.x"), "model.layers.0.x");  // as PEFT's adapters say
  EXPECT_EQ(hub::name_in_half("language_model.lm_head"), "lm_head");
  EXPECT_EQ(hub::name_in_half("model.layers.0.x"), "model.layers.0.x");
}

TEST(TextsHalf, SaysWhereTextsEnd) {
  const TempFolder root;
  root.write("below/config.json", R"({"text_config": {"eos_token_id": [3, 5]}, "vision_config": {}})");
  root.write("above/config.json", R"({"text_config": {"eos_token_id": 3}, "vision_config": {}, "eos_token_id": 4})");
  EXPECT_EQ(generation_defaults((root / "below").string(), 10).eos_token_id, (std::vector<std::int32_t>{3, 5}));
  EXPECT_EQ(generation_defaults((root / "above").string(), 10).eos_token_id, std::vector<std::int32_t>{4});
}

// As transformers has them in memory, and some publish them.
TEST(JoinedExperts, AreReadOneByOne) {
  const TempFolder root;
  for (const char* name : {"qwen3_5-moe", "qwen2-moe", "qwen3_next"}) {
    SCOPED_TRACE(name);
    const Golden golden(name, kDecoders);
    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::vector<Tensor>> both, down;
    for (const auto& [key, tensor] : read_all(golden.folder / "model.safetensors")) {
      const std::size_t at = key.find(".experts.");
      if (at == key.npos) {
        tensors[key] = tensor;
        continue;
      }
      const std::string stem = key.substr(0, at) + ".experts.";
      if (key.ends_with("down_proj.weight")) down[stem].push_back(tensor);
      if (!key.ends_with("gate_proj.weight")) continue;
      const std::string up = key.substr(0, key.size() - 16) + "up_proj.weight";
      both[stem].push_back(at::cat({tensor, read_all(golden.folder / "model.safetensors").at(up)}));
    }
    ASSERT_FALSE(both.empty());
    for (const auto& [stem, parts] : both) tensors[stem + "gate_up_proj"] = at::stack(parts);
    for (const auto& [stem, parts] : down) tensors[stem + "down_proj"] = at::stack(parts);
    std::filesystem::create_directories(root / name);
    std::filesystem::copy_file(golden.folder / "config.json", root / name / "config.json");
    write_tensors(root / name / "model.safetensors", tensors);
    const auto model = load_model((root / name).string(), Precision::fp32);
    const Tensor logits = require_causal_lm(*model, "a test").logits(golden.batch());
    EXPECT_TRUE(logits.equal(golden.model()->logits(golden.batch())));
    tensors[down.begin()->first + "1.down_proj.weight"] = at::ones({24, 7});
    write_tensors(root / name / "model.safetensors", tensors);
    EXPECT_THROW(load_model((root / name).string(), Precision::fp32), Error);  // there twice
  }
}

TEST(TextsHalf, OfATypeThatHoneHasNotIsRefused) {
  Problems problems;
  const auto node = config::parse_json(R"({"model_type": "aria", "text_config": {"model_type": "vicuna"},
                                           "vision_config": {}})",
                                       "config.json", problems);
  try {
    build_model(node, "config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("aria is a model of texts and images"), std::string::npos);
  }
}

}  // namespace
}  // namespace hone::test
