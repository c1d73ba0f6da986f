// Gemma 4 with pictures: folders as they are published, what is kept of sounds, and what its configuration cannot be.
// What it computes: pictures_golden_test.cc.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hone/adapter.h"
#include "hub/fresh.h"
#include "hub/save.h"
#include "models/picture_golden.h"
#include "nn/finite.h"
#include "nn/lora.h"

namespace hone::test {
namespace {

using testing::HasSubstr;

// The row without pictures, as a text.
Batch words_of(const Golden& golden) {
  Batch words = golden.batch();
  words.ids_BT = words.ids_BT.slice(0, 2, 3), words.segments_BT = words.positions_BT = Tensor();
  words.docs = {{.row = 0, .begin = 0, .end = words.docs.back().end}};
  return words;
}
void expect_words(const CausalLm& model, const Golden& golden) {
  const Batch words = words_of(golden);
  const std::int64_t end = words.docs[0].end;
  const Tensor expected = golden["logits"].slice(0, 2, 3).slice(1, 0, end);
  expect_close(model.logits(words).slice(1, 0, end), expected, 1e-5 * std::max(1.0, largest(expected)), "words");
}

// A folder of this config.json and the golden's tensors, and others.
std::unique_ptr<Model> read_with(const Golden& golden, const nlohmann::json& config,
                                 const std::map<std::string, Tensor>& more = {}) {
  const TempFolder root;
  std::map<std::string, Tensor> tensors = read_all(golden.folder / "model.safetensors");
  tensors.insert(more.begin(), more.end());
  root.write("config.json", config.dump());
  write_tensors(root / "model.safetensors", tensors);
  return load_model(root.path().string(), Precision::fp32);
}

// Keys as they were first published, and weights that layers without keys of their own have there.
TEST(Gemma4Folders, AsPublishedAreRead) {
  const Golden golden("gemma4", kPictures);
  nlohmann::json config = config_of(golden);
  config.erase("dtype");
  config.update(nlohmann::json::parse(R"({"vision_soft_tokens_per_image": 280, "eoa_token_id": 56,
      "eos_token_id": [1, 2], "torch_dtype": "bfloat16"})"));
  config["vision_config"].update(nlohmann::json::parse(R"({"default_output_length": 280, "global_head_dim": 8,
      "chunk_size_feed_forward": 0, "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"}})"));
  config["text_config"].erase("per_layer_config");
  config["text_config"].update(nlohmann::json::parse(R"({"global_head_dim": 12, "num_global_key_value_heads": null})"));
  const std::string layer = "model.language_model.layers.3.self_attn.";
  const auto model = read_with(golden, config, {{layer + "k_proj.weight", at::ones({24, 24})},
                                                {layer + "k_norm.weight", at::ones({12})}});
  expect_words(*model->causal_lm(), golden);
  EXPECT_EQ(model->hf_config().find("eos_token_id")->items().size(), 2u);
}

TEST(Gemma4Folders, OfUnifiedModelsAsPublishedAreRead) {
  const Golden golden("gemma4_unified", kPictures);
  const auto names = read_all(golden.folder / "model.safetensors");
  ASSERT_TRUE(names.contains("model.vision_embedder.patch_dense.weight"));  // in memory it is another
  nlohmann::json config = config_of(golden);
  config["vision_config"].update(nlohmann::json::parse(R"({"model_patch_size": 4, "num_soft_tokens": 280})"));
  config["audio_config"].update(nlohmann::json::parse(R"({"audio_samples_per_token": 10, "hidden_size": 10,
      "output_proj_dims": 10})"));
  config["text_config"].update(nlohmann::json::parse(R"({"enable_moe_block": false, "hidden_size_per_layer_input": 0,
      "vocab_size_per_layer_input": 64})"));
  expect_words(*read_with(golden, config)->causal_lm(), golden);
}

// All of what hears, as it was; what sees is read back, too.
TEST(Gemma4Folders, KeepWhatHears) {
  for (const char* name : {"gemma4", "gemma4_unified"}) {
    SCOPED_TRACE(name);
    const Golden golden(name, kPictures);
    const auto model = golden.model();
    std::int64_t of_sounds = 0;
    model->each_weight([&](const std::string& weight, Weight& one) {
      const bool hears = weight.find("audio") != std::string::npos;
      EXPECT_EQ(one.trainable(), !hears && !one.is_buffer()) << weight;
      of_sounds += hears;
    });
    EXPECT_GT(of_sounds, 0);
    const TempFolder root;
    hub::save_model_folder(root / "saved", *model, hub::model_files(*model, "", nullptr), {});
    const auto saved = read_all(root / "saved" / "model.safetensors");
    std::int64_t same = 0;
    for (const auto& [key, tensor] : read_all(golden.folder / "model.safetensors"))
      if (key.find("audio") != std::string::npos) same += saved.at(key).equal(tensor);
    EXPECT_EQ(same, of_sounds);
    expect_words(*load_model((root / "saved").string(), Precision::fp32)->causal_lm(), golden);
  }
}

TEST(Gemma4Whole, AdaptersSitOnNothingThatHears) {
  const auto model = Golden("gemma4", kPictures).model();
  LoraConfig lora;
  lora.rank = 2, lora.targets = {"all-linear"};
  apply_lora(*model, lora, 1);
  std::int64_t seen = 0, sees = 0;
  each_adapter(*model, kDefaultAdapter, [&](const std::string& module, Weight&, Adapter&) {
    EXPECT_THAT(module, testing::Not(HasSubstr("audio")));
    ++seen, sees += module.find("vision") != std::string::npos;
  });
  EXPECT_GT(seen, sees);
  EXPECT_EQ(sees, 2 * 7 + 2);
}

TEST(Gemma4Whole, FreshClipsCutNothing) {
  Problems problems;
  nlohmann::json config = config_of(Golden("gemma4", kPictures));
  config["vision_config"]["standardize"] = true;
  const auto model = build_model(config::parse_json(config.dump(), "config.json", problems), "config.json");
  init_weights(*model, 1, Precision::fp32);
  std::map<std::string, Tensor> weights;
  model->each_weight([&](const std::string& name, Weight& weight) { weights[name] = weight.use(); });
  const std::string tower = "model.vision_tower.", product = tower + "encoder.layers.1.mlp.up_proj.";
  EXPECT_EQ(weights.at(product + "input_min").item<double>(), -INFINITY);
  EXPECT_EQ(weights.at(product + "output_max").item<double>(), INFINITY);
  EXPECT_EQ(weights.at("model.audio_tower.layers.0.self_attn.post.input_max").item<double>(), INFINITY);
  EXPECT_EQ(nn::first_not_finite(*model), "");  // they are no fault
  model->each_weight([&](const std::string& name, Weight& weight) {
    if (name == product + "input_max") weight.value().fill_(NAN);
  });
  EXPECT_EQ(nn::first_not_finite(*model), product + "input_max");
  EXPECT_TRUE(weights.at(tower + "std_scale").equal(at::ones({24})));
  EXPECT_TRUE(weights.at(tower + "patch_embedder.position_embedding_table").equal(at::ones({2, 9, 24})));
}

// A picture's tokens see each other in layers with a window alone: in a model of others they do not.
TEST(Gemma4Whole, PicturesSeeThemselvesWhereTheConfigurationSaysIt) {
  const Golden golden("gemma4_moe", kPictures);
  Batch batch = golden.batch();
  const auto spans = golden["spans"], grids = golden["grids"];
  for (std::int64_t i = 0; i < spans.size(0); ++i) {
    const auto number = [&](const Tensor& of, int j) { return of[i][j].item<std::int64_t>(); };
    batch.pictures.spans.push_back({static_cast<std::int32_t>(number(spans, 0)),
                                    static_cast<std::int32_t>(number(spans, 1)),
                                    static_cast<std::int32_t>(number(spans, 2)),
                                    {1, number(grids, 1), number(grids, 2)}});
  }
  batch.pictures.patches_PV = golden["patches"];
  nlohmann::json config = config_of(golden);
  const auto logits_with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json changed = config;
    change(changed["text_config"]);
    return read_with(golden, changed)->causal_lm()->logits(batch) * golden["attention_mask"].unsqueeze(-1);
  };
  const Tensor& expected = golden["logits"];
  expect_close(logits_with([](auto&) {}), expected, 1e-5 * std::max(1.0, largest(expected)), "as it is");
  EXPECT_GT(largest(logits_with([](auto& texts) { texts["use_bidirectional_attention"] = nullptr; }) - expected), 0.01);
}

TEST(Gemma4WholeConfigs, WhatTheyCannotBeIsAnError) {
  const auto whole = [](auto change) { return problem_of("gemma4", change); };
  const auto unified = [](auto change) { return problem_of("gemma4_unified", change); };
  EXPECT_THAT(whole([](auto& c) { c["text_config"]["model_type"] = "gemma3_text"; }),
              HasSubstr("got \"gemma3_text\", expected gemma4_text"));
  EXPECT_THAT(whole([](auto& c) { c["text_config"]["num_kv_shared_layers"] = 4; }),
              HasSubstr("text_config.num_kv_shared_layers: got 4"));
  EXPECT_THAT(whole([](auto& c) { c["text_config"]["hiden"] = 1; }), HasSubstr("text_config.hiden"));
  EXPECT_THAT(whole([](auto& c) { c["vision_config"]["head_dim"] = 6; }),
              HasSubstr("vision_config.head_dim: got 6, expected a multiple of 4"));
  EXPECT_THAT(whole([](auto& c) { c["vision_config"]["num_key_value_heads"] = 2; }),
              HasSubstr("vision_config.num_attention_heads: got 3"));
  EXPECT_THAT(whole([](auto& c) { c["vision_config"]["rope_parameters"]["rope_type"] = "yarn"; }),
              HasSubstr("vision_config.rope_parameters.rope_type: got \"yarn\", expected axial"));
  EXPECT_THAT(whole([](auto& c) { c["vision_config"]["hidden_activation"] = "x"; }),
              HasSubstr("vision_config.hidden_activation"));
  EXPECT_THAT(whole([](auto& c) { c["vision_config"] = nullptr; }),
              HasSubstr("vision_config: missing; without one it is a model of type gemma4_text"));
  EXPECT_THAT(whole([](auto& c) { c["audio_config"]["subsampling_conv_channels"] = {8}; }),
              HasSubstr("audio_config.subsampling_conv_channels: got 1 numbers, expected 2"));
  EXPECT_THAT(whole([](auto& c) { c["image_token_id"] = 64; }), HasSubstr("image_token_id: got 64"));
  EXPECT_THAT(unified([](auto& c) { c["vision_config"]["output_proj_dims"] = 8; }),
              HasSubstr("vision_config.output_proj_dims: got 8, expected mm_embed_dim (24)"));
  EXPECT_THAT(unified([](auto& c) { c["vision_config"]["model_patch_size"] = 8; }),
              HasSubstr("vision_config.model_patch_size: got 8"));
  EXPECT_THAT(unified([](auto& c) { c["audio_config"]["hidden_size"] = 8; }),
              HasSubstr("audio_config.hidden_size: got 8, expected audio_embed_dim (10)"));
  EXPECT_THAT(unified([](auto& c) { c["text_config"]["enable_moe_block"] = true; }),
              HasSubstr("gemma4_unified_text has no such key"));
}

TEST(Gemma4WholeConfigs, TheTextsAreAModelOfTheirOwn) {
  for (const char* name : {"gemma4", "gemma4_moe", "gemma4_unified"}) {
    SCOPED_TRACE(name);
    const Golden golden(name, kPictures);
    const std::string file = (golden.folder / "config.json").string();
    const config::Node config = config::read_file(file);
    const auto half = build_model(hub::half_of(config, file), file);
    EXPECT_THAT(half->hf_config().find("model_type")->text(), testing::EndsWith("_text"));
    EXPECT_EQ(half->pictures(), nullptr);
    load_weights(*half, golden.folder, Precision::fp32);
    Batch words = words_of(golden);
    words.ids_BT = words.ids_BT.where(words.ids_BT < 60, at::scalar_tensor(3, at::kLong));  // padding's row
    const std::int64_t end = words.docs[0].end;
    const Tensor expected = golden["logits"].slice(0, 2, 3).slice(1, 0, end);
    expect_close(half->causal_lm()->logits(words).slice(1, 0, end), expected, 1e-5 * std::max(1.0, largest(expected)),
                 "texts");
  }
}

}  // namespace
}  // namespace hone::test
