// Folders of Mistral 3, LFM2-VL and InternVL as they are published, and what their config.json cannot say.
#include <gmock/gmock.h>

#include "hone/hub.h"
#include "hub/fresh.h"
#include "models/picture_golden.h"

namespace hone::test {
namespace {

// As transformers 4 wrote them: nothing is said of the head, which is there, and rotations are numbers.
TEST(PictureFolders, PublishedOfMistral3AreRead) {
  const PictureGolden golden("mistral3");
  nlohmann::json config = config_of(golden);
  config.erase("dtype"), config.erase("tie_word_embeddings");
  config["torch_dtype"] = "bfloat16";
  auto &texts = config["text_config"], &vision = config["vision_config"];
  for (const char* key : {"rope_parameters", "dtype", "tie_word_embeddings"}) texts.erase(key), vision.erase(key);
  texts["rope_theta"] = 10000.0, vision["rope_theta"] = 10000.0;
  expect_read(golden, config, [](std::string weight) {
    const auto turn = [&](const std::string& from, const std::string& to) {
      if (weight.starts_with(from)) weight = to + weight.substr(from.size());
    };
    turn("lm_head.", "language_model.lm_head.");
    turn("model.language_model.", "language_model.model.");
    turn("model.vision_tower.", "vision_tower.");
    turn("model.multi_modal_projector.", "multi_modal_projector.");
    return weight;
  });
}

// A head that is the table once more is none of its own.
TEST(PictureFolders, OfMistral3AreTiedAsTransformersTiesThem) {
  for (const bool other : {false, true}) {
    const PictureGolden golden("mistral3-growing");
    nlohmann::json config = config_of(golden);
    config.erase("tie_word_embeddings");
    const TempFolder root;
    std::map<std::string, Tensor> tensors;
    golden.model()->each_weight([&](const std::string& name, Weight& weight) { tensors[name] = weight.use(); });
    const Tensor table = tensors.at("model.language_model.embed_tokens.weight");
    tensors["lm_head.weight"] = other ? table + 1 : table;
    root.write("config.json", config.dump());
    write_tensors(root / "model.safetensors", tensors);
    const auto model = load_model(root.path().string(), Precision::fp32);
    EXPECT_EQ(model->hf_config().find("tie_word_embeddings")->text(), other ? "false" : "true");
  }
}

// Ministral 3's published ones in FP8: one scale for each weight of the texts', and one for what goes into it.
TEST(PictureFolders, OfMistral3InFp8AreRead) {
  const PictureGolden golden("mistral3");
  nlohmann::json config = config_of(golden);
  config["quantization_config"] = nlohmann::json::parse(R"({"activation_scheme": "static", "dequantize": false,
      "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"],
      "quant_method": "fp8", "weight_block_size": null})");
  const TempFolder root;
  std::map<std::string, Tensor> tensors, whole;
  const auto source = golden.model();
  source->each_weight([&](const std::string& name, Weight& weight) {
    const Tensor value = weight.use();
    if (!name.starts_with("model.language_model.layers.") || value.dim() != 2) return void(tensors[name] = value);
    const Tensor codes = (value / 0.25).to(at::kFloat8_e4m3fn);
    tensors[name] = codes;
    tensors[name + "_scale_inv"] = at::full({}, 0.25f);
    tensors[name.substr(0, name.rfind('.')) + ".activation_scale"] = at::full({}, 0.5f);
    whole[name] = codes.to(at::kFloat) * 0.25;
  });
  ASSERT_EQ(whole.size(), 14u);
  root.write("config.json", config.dump());
  write_tensors(root / "model.safetensors", tensors);
  const auto model = load_model(root.path().string(), Precision::fp32);
  model->each_weight([&](const std::string& name, Weight& weight) {
    const auto expected = whole.find(name);
    EXPECT_TRUE(expected == whole.end() || at::equal(weight.use(), expected->second)) << name;
  });
}

// With the tower's vectors one module further in, and what preprocessor_config.json says, too.
TEST(PictureFolders, PublishedOfLfm2VlAreRead) {
  const PictureGolden golden("lfm2_vl-plain");
  nlohmann::json config = config_of(golden);
  for (const char* key : {"dtype", "image_token_id", "tie_word_embeddings"}) config.erase(key);
  config.update(nlohmann::json::parse(R"({"image_token_index": 60, "do_image_splitting": true, "tie_embedding": true,
      "encoder_patch_size": 4, "max_image_tokens": 256, "max_num_patches": 1024, "max_pixels_tolerance": 2.0,
      "max_tiles": 10, "min_image_tokens": 64, "min_tiles": 2, "tile_size": 512, "torch_dtype": "bfloat16",
      "use_image_special_tokens": true, "use_thumbnail": true, "vision_feature_layer": -1})"));
  auto& texts = config["text_config"];
  texts.erase("dtype"), texts.erase("rope_parameters"), texts.erase("tie_word_embeddings");
  texts["rope_theta"] = 1000000.0, texts["tie_embedding"] = true;
  expect_read(golden, config, [](std::string weight) {
    const std::string tower = "model.vision_tower.";
    return weight.starts_with(tower) ? tower + "vision_model." + weight.substr(tower.size()) : weight;
  });
}

TEST(PictureFolders, PublishedOfInternVlAreRead) {
  const PictureGolden golden("internvl");
  nlohmann::json config = config_of(golden);
  for (const char* key : {"dtype", "tie_word_embeddings"}) config.erase(key);
  config["torch_dtype"] = "bfloat16";
  auto& texts = config["text_config"];
  for (const char* key : {"dtype", "rope_parameters", "layer_types", "tie_word_embeddings"}) texts.erase(key);
  texts.update(nlohmann::json::parse(R"({"rope_theta": 10000.0, "_name_or_path": "x", "temperature": 1.0,
      "architectures": ["Qwen2ForCausalLM"], "torch_dtype": "bfloat16", "use_bfloat16": true})"));
  config["vision_config"].update(nlohmann::json::parse(R"({"architectures": ["InternVisionModel"], "dropout": 0.0,
      "initializer_factor": 0.1, "image_size": 16, "patch_size": 4})"));
  expect_read(golden, config, [](std::string weight) {
    const auto turn = [&](const std::string& from, const std::string& to) {
      if (weight.starts_with(from)) weight = to + weight.substr(from.size());
    };
    turn("lm_head.", "language_model.lm_head.");
    turn("model.language_model.", "language_model.model.");
    turn("model.vision_tower.", "vision_tower.");
    turn("model.multi_modal_projector.", "multi_modal_projector.");
    return weight;
  });
}

// Labels of texts, and Mistral Small 4, which goes by the same name, are of the texts' half.
TEST(PictureConfigs, OfMistral3TheTextsAreAModelOfTheirOwn) {
  const PictureGolden golden("mistral3");
  const std::string file = (golden.folder / "config.json").string();
  config::Node config = config::read_file(file);
  const auto type_of = [](const Model& model) { return model.hf_config().find("model_type")->text(); };
  EXPECT_EQ(type_of(*build_model(config, file)), "mistral3");
  const auto labelled = build_model(config, file, {.labels = {"a", "b"}});
  EXPECT_EQ(type_of(*labelled), "mistral");
  EXPECT_EQ(type_of(*build_model(hub::half_of(config, file), file)), "mistral");
  EXPECT_TRUE(hub::has_whole(config));
  const std::string texts = "tests/golden/decoders/mistral4/config.json";
  config.at_or_add("text_config") = config::read_file(texts);
  EXPECT_FALSE(hub::has_whole(config));
  EXPECT_EQ(type_of(*build_model(config, file)), "mistral4");
}

TEST(PictureConfigs, OfMistral3WhatTheyCannotBeIsAnError) {
  using testing::HasSubstr;
  const auto mistral = [](auto change) { return problem_of("mistral3", change); };
  EXPECT_THAT(mistral([](auto& c) { c["text_config"]["model_type"] = "nobody"; }), HasSubstr("text_config.model_type"));
  EXPECT_THAT(mistral([](auto& c) { c["vision_feature_layer"] = {-1, -2}; }), HasSubstr("expected one layer"));
  EXPECT_THAT(mistral([](auto& c) { c["vision_feature_layer"] = 3; }), HasSubstr("got 3, expected -3 to 2"));
  EXPECT_THAT(mistral([](auto& c) { c["image_token_index"] = 64; }), HasSubstr("below vocab_size (64)"));
  EXPECT_THAT(mistral([](auto& c) { c["vision_config"]["head_dim"] = 4; }), HasSubstr("vision_config.head_dim: got 4"));
  EXPECT_THAT(mistral([](auto& c) { c["vision_config"]["hidden_size"] = 30; }), HasSubstr("half of a head turns"));
  EXPECT_THAT(mistral([](auto& c) { c["vision_config"]["rope_parameters"]["rope_type"] = "yarn"; }),
              HasSubstr("vision_config.rope_parameters.rope_type"));
  EXPECT_THAT(mistral([](auto& c) { c["vision_config"]["rope_parameters"]["factor"] = 2; }),
              HasSubstr("vision_config.rope_parameters.factor: no such option"));
  EXPECT_THAT(mistral([](auto& c) { c["projector_hidden_act"] = "x"; }), HasSubstr("projector_hidden_act"));
}

TEST(PictureConfigs, OfQwen35AndQwen3VlMoeWhatTheyCannotBeIsAnError) {
  using testing::HasSubstr;
  const auto qwen = [](auto change) { return problem_of("qwen3_5", change); };
  const auto experts = [](auto change) { return problem_of("qwen3_vl_moe", change); };
  EXPECT_THAT(qwen([](auto& c) { c["vision_config"]["deepstack_visual_indexes"] = {0}; }),
              HasSubstr("vision_config.deepstack_visual_indexes: qwen3_5_vision has no such key"));
  EXPECT_THAT(qwen([](auto& c) {
                c["vision_config"]["model_type"] = "qwen3_vl", c["vision_config"]["deepstack_visual_indexes"] = {0};
              }),
              HasSubstr("expected qwen3_5_vision"));
  EXPECT_THAT(qwen([](auto& c) {
                c["text_config"]["rope_parameters"]["mrope_section"] = {4, 2, 2};
              }),
              HasSubstr("half of what is rotated of a head (4)"));
  EXPECT_THAT(qwen([](auto& c) { c["text_config"]["model_type"] = "qwen3"; }), HasSubstr("expected qwen3_5_text"));
  EXPECT_THAT(qwen([](auto& c) { c["text_config"]["attn_output_gate"] = false; }),
              HasSubstr("text_config.attn_output_gate: got false"));
  EXPECT_THAT(qwen([](auto& c) { c.erase("image_token_id"); }), HasSubstr("image_token_id: got 248056"));
  EXPECT_THAT(experts([](auto& c) { c["text_config"]["norm_topk_prob"] = false; }),
              HasSubstr("text_config.norm_topk_prob: got false"));
  EXPECT_THAT(experts([](auto& c) { c["text_config"]["use_sliding_window"] = true; }),
              HasSubstr("use_sliding_window: qwen3_vl_moe_text has no such key"));
  EXPECT_THAT(experts([](auto& c) { c["text_config"]["mlp_only_layers"] = {3}; }),
              HasSubstr("text_config.mlp_only_layers.0: got 3"));
}

TEST(PictureConfigs, OfLfm2VlAndInternVlWhatTheyCannotBeIsAnError) {
  using testing::HasSubstr;
  const auto lfm2 = [](auto change) { return problem_of("lfm2_vl", change); };
  const auto intern = [](auto change) { return problem_of("internvl", change); };
  EXPECT_THAT(lfm2([](auto& c) { c["text_config"]["conv_L_cache"] = 1; }), HasSubstr("text_config.conv_L_cache"));
  EXPECT_THAT(lfm2([](auto& c) { c["vision_config"]["num_patches"] = 10; }), HasSubstr("vision_config.num_patches"));
  EXPECT_THAT(lfm2([](auto& c) { c["vision_config"]["model_type"] = "siglip_vision_model"; }),
              HasSubstr("expected siglip2_vision_model"));
  EXPECT_THAT(lfm2([](auto& c) { c["use_image_special_tokens"] = false; }), HasSubstr("use_image_special_tokens"));
  EXPECT_THAT(lfm2([](auto& c) { c["image_token_id"] = 64; }), HasSubstr("below vocab_size (64)"));
  EXPECT_THAT(intern([](auto& c) { c["text_config"]["hiden"] = 1; }), HasSubstr("text_config.hiden"));
  EXPECT_THAT(intern([](auto& c) { c["downsample_ratio"] = 0.3; }), HasSubstr("downsample_ratio: got 0.3"));
  EXPECT_THAT(intern([](auto& c) { c["vision_feature_layer"] = -2; }), HasSubstr("vision_feature_layer: got -2"));
  EXPECT_THAT(intern([](auto& c) { c["vision_feature_select_strategy"] = "full"; }), HasSubstr("select_strategy"));
  EXPECT_THAT(intern([](auto& c) { c["vision_config"]["image_size"] = {16, 20}; }), HasSubstr("image_size"));
  EXPECT_THAT(intern([](auto& c) { c["vision_config"]["norm_type"] = "x"; }), HasSubstr("vision_config.norm_type"));
  EXPECT_THAT(intern([](auto& c) { c["vision_config"]["hidden_dropout_prob"] = 0.1; }),
              HasSubstr("hidden_dropout_prob: got 0.1"));
  EXPECT_THAT(problem_of("gemma3", [](auto& c) { c["vision_config"]["num_patches"] = 16; }),
              HasSubstr("siglip_vision_model has no such key"));
}

}  // namespace
}  // namespace hone::test
