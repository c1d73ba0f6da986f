// Models that read pictures against transformers: logits, losses, every gradient, ten AdamW steps, what they generate
// behind a picture; with kernels and without. Then what all models have to do alike: packing, recomputed blocks, lower
// precision, folders with older names.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "hone/generate.h"
#include "hub/fresh.h"
#include "models/picture_golden.h"
#include "models/picture_texts.h"
#include "models/siglip_tower.h"

namespace hone::test {
namespace {

// The rows of a batch as documents of one.
Batch in_one_row(const Batch& rows) {
  Batch packed = rows;
  std::vector<Tensor> ids, labels;
  std::int32_t begin = 0;
  packed.docs.clear();
  for (const Doc& doc : rows.docs) {
    ids.push_back(rows.ids_BT[doc.row].slice(0, doc.begin, doc.end));
    labels.push_back(rows.labels_BT[doc.row].slice(0, doc.begin, doc.end));
    const std::int32_t end = begin + doc.end - doc.begin;
    packed.docs.push_back({.row = 0, .begin = begin, .end = end});
    for (std::size_t i = 0; i < rows.pictures.spans.size(); ++i)
      if (const PictureSpan& span = rows.pictures.spans[i]; span.row == doc.row)
        packed.pictures.spans[i] = {0, span.begin + begin, span.end + begin, span.grid, span.tiles};
    begin = end;
  }
  packed.ids_BT = at::cat(ids).unsqueeze(0), packed.labels_BT = at::cat(labels).unsqueeze(0);
  packed.weight_BT = (packed.labels_BT != -100).to(at::kFloat);
  packed.segments_BT = packed.positions_BT = Tensor();
  return packed;
}

// Gives the patches of a golden's pictures: a file's path is its number.
class GoldenReader final : public PictureReader {
 public:
  GoldenReader(const PictureGolden& golden, const PictureInput& input) : golden_(golden), input_(input) {}
  const PictureInput& input() const override { return input_; }
  PatchGrid grid(const PictureFile& file) const override { return golden_.spans().at(std::stoul(file.path)).grid; }
  std::int64_t tokens(const PatchGrid& grid) const override { return input_.tokens_of(grid); }
  Patches read(const PictureFile& file) const override {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < std::stoul(file.path); ++i) begin += golden_.spans()[i].patches();
    const PictureSpan span = golden_.spans().at(std::stoul(file.path));
    const Tensor own = golden_.patches().narrow(0, begin, span.patches()).contiguous();
    return {span.grid, {own.data_ptr<float>(), own.data_ptr<float>() + own.numel()}, span.tiles};
  }
  std::string fingerprint() const override { return "golden"; }

 private:
  const PictureGolden& golden_;
  PictureInput input_;
};

// Of a pass in training: the loss and each trained weight's gradient, which are cleared.
Gradients gradients_of_trained(CausalLm& model, const Batch& batch, bool checkpoint = false) {
  Pass pass(batch);
  pass.training = true;
  pass.checkpoint_blocks = checkpoint;
  const Tensor loss = mean_loss(model, batch, pass);
  loss.backward();
  Gradients all{{"loss", loss.detach()}};
  model.each_weight([&](const std::string& name, Weight& w) {
    if (w.trainable()) all[name] = w.grad().clone(), w.clear_grad();
  });
  return all;
}

class PictureModels : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  PictureGolden golden_{GetParam().name};
};

TEST_P(PictureModels, LogitsAndLoss) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  const Tensor logits = model->logits(batch) * golden_["attention_mask"].unsqueeze(-1);
  expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), "logits");
  Pass pass(batch);
  pass.training = true;  // what balances experts is of the loss
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(mean_loss(*model, batch, pass).item<double>(), expected, 2e-6 * expected);
}

// What is behind the tower's last layer that is read has none there, and is not trained here.
TEST_P(PictureModels, EveryGradient) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  Pass pass(batch);
  pass.training = true;
  mean_loss(*model, batch, pass).backward();
  double model_largest = 0;
  std::int64_t there = 0, seen = 0;
  for (const auto& [name, tensor] : golden_.tensors)
    if (name.starts_with("grad.")) model_largest = std::max(model_largest, largest(tensor)), ++there;
  model->each_weight([&](const std::string& name, Weight& weight) {
    const auto expected = golden_.tensors.find("grad." + name);
    EXPECT_EQ(weight.trainable(), expected != golden_.tensors.end()) << name;
    if (!weight.trainable() || expected == golden_.tensors.end()) return;
    // The bias of keys turns no attention: its gradient is rounding alone.
    const double part = name.ends_with("k_proj.bias") ? 1e-1 : 1e-3;
    const double floor = std::max(largest(expected->second), part * model_largest);
    expect_close(weight.grad(), expected->second, 1e-5 * floor, name);
    ++seen;
  });
  EXPECT_EQ(seen, there);
}

TEST_P(PictureModels, TenSteps) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  expect_ten_golden_steps(
      *model, batch, golden_["ten_losses"], [&](Pass& pass) { return mean_loss(*model, batch, pass); },
      /*training=*/true, /*tolerance=*/3e-5);
}

TEST_P(PictureModels, ConfigComesBackAsItWas) { expect_same_config(golden_.folder, *golden_.model()); }

TEST_P(PictureModels, GenerateBehindAPicture) {
  const auto model = golden_.model();
  const PictureSpan first = golden_.spans()[0];
  const auto count = golden_["attention_mask"][0].sum().item<std::int64_t>();
  std::vector<std::int32_t> prompt;
  for (std::int64_t t = 0; t < count; ++t) prompt.push_back(golden_["input_ids"][0][t].item<std::int32_t>());
  const auto reader = std::make_shared<GoldenReader>(golden_, *model->pictures());
  const std::vector<DocPicture> pictures{
      {first.begin, first.end - first.begin, std::make_shared<PictureFile>(PictureFile{"0"}), reader}};
  Generator generator(*model, load_tokenizer("bytes"));
  GenerateConfig config;
  config.max_new_tokens = 12, config.ignore_eos = true;
  // A text without a picture beside it, which is shorter.
  const std::vector<std::vector<std::int32_t>> prompts{prompt, {5, 9, 30}};
  const std::vector<std::vector<DocPicture>> all{pictures, {}};
  const auto made = generator.generate(prompts, config, {}, {}, {}, {}, all);
  std::vector<std::int64_t> ids(made[0].ids.begin(), made[0].ids.end());
  EXPECT_EQ(ids, numbers_of(golden_["generated"]));
  EXPECT_EQ(generator.generate({prompts[1]}, config)[0].ids, made[1].ids);
  EXPECT_HONE_ERROR(generator.generate({prompt}, config), data, "which stands for pictures; expected 0");
}

TEST_P(PictureModels, PackedRowsGiveWhatRowsGive) {
  const auto model = golden_.model();
  const Gradients apart = gradients_of_trained(*model, golden_.batch());
  const Gradients packed = gradients_of_trained(*model, in_one_row(golden_.batch()));
  ASSERT_EQ(apart.size(), packed.size());
  for (const auto& [name, expected] : apart)
    expect_close(packed.at(name), expected, 2e-5 * std::max(1.0, largest(expected)), name);
}

INSTANTIATE_TEST_SUITE_P(Models, PictureModels, testing::ValuesIn(golden_params(golden_names(kPictures))),
                         print_golden);

TEST(PictureModel, CheckpointedBlocksGiveTheSameBits) {
  for (const std::string& name : golden_names(kPictures))
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const PictureGolden golden(name);
      const auto model = golden.model(precision);
      const Gradients kept = gradients_of_trained(*model, golden.batch());
      const Gradients remade = gradients_of_trained(*model, golden.batch(), true);
      ASSERT_EQ(remade.size(), kept.size());
      for (const auto& [key, expected] : kept) EXPECT_TRUE(at::equal(remade.at(key), expected)) << name << " " << key;
    }
}

TEST(PictureModel, LowerPrecisionStaysNear) {
  for (const std::string& name : golden_names(kPictures)) {
    if (name.ends_with("_moe")) continue;  // a rounding may send a token to another expert
    const PictureGolden golden(name);
    const Batch batch = golden.batch();
    Pass pass(batch);
    const double expected = golden["loss"].item<double>();
    EXPECT_NEAR(mean_loss(*golden.model(Precision::bf16), batch, pass).item<double>(), expected, 0.05 * expected);
  }
}

// As hone writes them, and transformers 5 has them in memory.
TEST(PictureFolders, WithTheirNamesInMemoryAreRead) {
  for (const std::string& name : golden_names(kPictures)) {
    const PictureGolden golden(name);
    expect_read(golden, config_of(golden), [](const std::string& weight) { return weight; });
  }
}

TEST(PictureFolders, PublishedOfLlavaAreRead) {
  const PictureGolden golden("llava");
  nlohmann::json config = config_of(golden);
  config.erase("dtype");
  config.update(nlohmann::json::parse(R"({"ignore_index": -100, "pad_token_id": 1, "torch_dtype": "float16",
      "vocab_size": 64, "image_token_id": 60})"));
  config["vision_config"].update(nlohmann::json::parse(R"({"vocab_size": 32000, "num_beams": 1, "top_k": 50})"));
  config["text_config"].update(nlohmann::json::parse(R"({"_name_or_path": "x", "architectures": ["LlamaForCausalLM"],
      "torch_dtype": "float16", "temperature": 1.0})"));
  expect_read(golden, config, [](std::string weight) {
    const auto turn = [&](const std::string& from, const std::string& to) {
      if (weight.starts_with(from)) weight = to + weight.substr(from.size());
    };
    turn("lm_head.", "language_model.lm_head.");
    turn("model.language_model.", "language_model.model.");
    turn("model.vision_tower.", "vision_tower.vision_model.");
    turn("model.multi_modal_projector.", "multi_modal_projector.");
    return weight;
  });
}

// With the texts' keys beside those of the whole.
TEST(PictureFolders, PublishedOfQwenAreRead) {
  for (const std::string name : {"qwen2_vl", "qwen2_5_vl"}) {
    const PictureGolden golden(name);
    nlohmann::json config = config_of(golden), texts = config["text_config"];
    config.erase("text_config");
    for (const char* key : {"model_type", "dtype", "layer_types", "rope_parameters"}) texts.erase(key);
    config.update(texts);
    config.update(nlohmann::json::parse(R"({"rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]},
        "rope_theta": 100.0, "vision_token_id": 57, "torch_dtype": "bfloat16"})"));
    auto& vision = config["vision_config"];
    vision.erase("rope_parameters"), vision.erase("dtype"), vision.erase("in_channels");
    vision["in_chans"] = 3, vision["spatial_patch_size"] = 4, vision["model_type"] = name;
    expect_read(golden, config, [](std::string weight) {
      const auto turn = [&](const std::string& from, const std::string& to) {
        if (weight.starts_with(from)) weight = to + weight.substr(from.size());
      };
      turn("model.language_model.", "model.");
      turn("model.visual.", "visual.");
      return weight;
    });
  }
}

// Of experts one by one, those of each layer as one tensor of gates and ups and one of downs.
void join_experts(Tensors& tensors) {
  std::map<std::string, std::vector<Tensor>> both, down;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t at = name.find(".experts.");
    if (at == std::string::npos) continue;
    const std::string stem = name.substr(0, at) + ".experts.";
    if (name.ends_with("down_proj.weight")) down[stem].push_back(tensor);
    if (name.ends_with("gate_proj.weight"))
      both[stem].push_back(at::cat({tensor, tensors.at(name.substr(0, name.rfind("gate_")) + "up_proj.weight")}));
  }
  std::erase_if(tensors, [](const auto& one) { return one.first.find(".experts.") != std::string::npos; });
  for (const auto& [stem, parts] : both) tensors[stem + "gate_up_proj"] = at::stack(parts);
  for (const auto& [stem, parts] : down) tensors[stem + "down_proj"] = at::stack(parts);
}

// With keys of the whole's, a tower that says that nothing of it is read early, and layers that guess further tokens.
TEST(PictureFolders, PublishedOfQwen35AreRead) {
  for (const std::string name : {"qwen3_5", "qwen3_5_moe"}) {
    SCOPED_TRACE(name);
    const PictureGolden golden(name);
    nlohmann::json config = config_of(golden);
    config.erase("dtype");
    config["transformers_version"] = "4.57.0.dev0";
    auto &vision = config["vision_config"], &texts = config["text_config"];
    vision.erase("rope_parameters"), vision.erase("dtype");
    vision["deepstack_visual_indexes"] = nlohmann::json::array(), vision["model_type"] = name;
    texts["tie_word_embeddings"] = config["tie_word_embeddings"];
    texts.erase("bos_token_id"), texts.erase("intermediate_size");
    if (name == "qwen3_5") texts["intermediate_size"] = 40, texts["mlp_only_layers"] = nlohmann::json::array();
    texts.update(nlohmann::json::parse(R"({"attn_output_gate": true, "dtype": "bfloat16", "full_attention_interval": 4,
        "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false})"));
    expect_read(golden, config, [](const std::string& weight) { return weight; }, [&](Tensors& tensors) {
      if (name == "qwen3_5_moe") join_experts(tensors);
      tensors["mtp.fc.weight"] = at::ones({32, 64}), tensors["mtp.layers.0.input_layernorm.weight"] = at::ones({32});
    });
  }
}

// With rotations as transformers 4 wrote them, tokens of the whole in text_config, and the whole's name of the tower.
TEST(PictureFolders, PublishedOfGlm4vAreRead) {
  for (const std::string name : {"glm4v", "glm46v"}) {
    const PictureGolden golden(name);
    nlohmann::json config = config_of(golden);
    config.erase("dtype"), config.erase("tie_word_embeddings");
    auto &texts = config["text_config"], &vision = config["vision_config"];
    vision.erase("rope_parameters"), vision["model_type"] = "glm4v";
    texts.erase("rope_parameters");
    texts.update(nlohmann::json::parse(R"({"attention_bias": true, "head_dim": 16, "image_token_id": 60,
        "image_start_token_id": 58, "video_end_token_id": 63, "partial_rotary_factor": 0.5, "rope_theta": 100.0,
        "rope_scaling": {"type": "default", "mrope_section": [2, 1, 1]}, "tie_word_embeddings": false})"));
    expect_read(golden, config, [](const std::string& weight) { return weight; });
  }
}

// With keys of GLM-4.5's files besides.
TEST(PictureFolders, PublishedOfGlm4vMoeAreRead) {
  const PictureGolden golden("glm4v_moe");
  nlohmann::json config = config_of(golden);
  config.erase("dtype"), config.erase("tie_word_embeddings");
  auto &texts = config["text_config"], &vision = config["vision_config"];
  vision.erase("rope_parameters"), vision["model_type"] = "glm4v_moe";
  texts.erase("rope_parameters"), texts["model_type"] = "glm4v_moe";
  texts.update(nlohmann::json::parse(R"({"head_dim": 16, "image_token_id": 60, "image_start_token_id": 58,
      "partial_rotary_factor": 0.5, "rope_theta": 100.0, "use_qk_norm": false,
      "rope_scaling": {"type": "default", "mrope_section": [2, 1, 1]}})"));
  expect_read(golden, config, [](const std::string& weight) { return weight; });
  const auto problem = [](auto change) { return problem_of("glm4v_moe", change); };
  EXPECT_THAT(problem([](auto& c) { c["text_config"]["use_qk_norm"] = true; }),
              testing::HasSubstr("text_config.use_qk_norm: got true, expected false"));
  EXPECT_THAT(problem([](auto& c) { c["vision_config"]["model_type"] = "glm4v_vision"; }),
              testing::HasSubstr("vision_config.model_type: got \"glm4v_vision\", expected glm4v_moe_vision"));
}

// With matrices of experts the other way round.
TEST(PictureFolders, PublishedOfQwen3VlMoeAreRead) {
  const PictureGolden golden("qwen3_vl_moe");
  nlohmann::json config = config_of(golden);
  config.erase("dtype");
  auto &vision = config["vision_config"], &texts = config["text_config"];
  vision.erase("rope_parameters"), vision["model_type"] = "qwen3_vl_moe";
  for (const char* key : {"rope_parameters", "sliding_window", "num_local_experts", "tie_word_embeddings"})
    texts.erase(key);
  texts.update(nlohmann::json::parse(R"({"norm_topk_prob": true, "num_experts": 5, "rope_theta": 100.0,
      "rope_scaling": {"mrope_interleaved": true, "mrope_section": [2, 1, 1], "rope_type": "default"}})"));
  expect_read(golden, config, [](const std::string& weight) { return weight; }, [&](Tensors& tensors) {
    for (auto& [key, tensor] : tensors)
      if (key.find(".experts.") != std::string::npos) tensor = tensor.transpose(1, 2).contiguous();
  });
}

// Without the head that pools patches, which published ones have not.
TEST(PictureFolders, PublishedOfGemma3AreRead) {
  const PictureGolden golden("gemma3");
  nlohmann::json config = config_of(golden);
  config.erase("dtype");
  config.update(nlohmann::json::parse(R"({"eos_token_id": [1, 2], "torch_dtype": "bfloat16"})"));
  config["vision_config"]["vision_use_head"] = false;
  auto& texts = config["text_config"];
  texts.erase("rope_parameters"), texts.erase("layer_types"), texts.erase("_sliding_window_pattern");
  texts.update(nlohmann::json::parse(R"({"rope_theta": 100.0, "rope_local_base_freq": 50.0,
      "sliding_window_pattern": 2, "cache_implementation": "hybrid", "torch_dtype": "bfloat16"})"));
  expect_read(golden, config, [](std::string weight) -> std::string {
    if (weight.starts_with("model.vision_tower.head.")) return "";
    const auto turn = [&](const std::string& from, const std::string& to) {
      if (weight.starts_with(from)) weight = to + weight.substr(from.size());
    };
    turn("model.language_model.", "language_model.model.");
    turn("model.vision_tower.", "vision_tower.vision_model.");
    turn("model.multi_modal_projector.", "multi_modal_projector.");
    return weight;
  });
}

TEST(PictureFolders, PublishedOfSmolVlmAreRead) {
  const PictureGolden golden("smolvlm");
  nlohmann::json config = config_of(golden);
  config.erase("dtype");
  config.update(nlohmann::json::parse(R"({"pad_token_id": 128002, "torch_dtype": "float32", "use_cache": false,
      "use_reentrant_checkpointing": false, "vocab_size": 64})"));
  config["text_config"].update(nlohmann::json::parse(R"({"architectures": ["VLlama3ForCausalLM"],
      "is_llama_config": true, "neftune_noise_alpha": 0.0, "pixel_shuffle_factor": 2, "qk_layer_norms": false,
      "rope_interleaved": false, "use_resampler": false, "torch_dtype": "bfloat16"})"));
  config["vision_config"].update(nlohmann::json::parse(R"({"max_image_size": {"longest_edge": 16},
      "size": {"longest_edge": 64}, "tie_word_embeddings": false, "use_base_siglip": false})"));
  expect_read(golden, config, [](const std::string& weight) { return weight; });
}

TEST(PictureConfigs, WhatTheyCannotBeIsAnError) {
  using testing::HasSubstr;
  const auto llava = [](auto change) { return problem_of("llava", change); };
  const auto qwen = [](auto change) { return problem_of("qwen2_5_vl", change); };
  EXPECT_THAT(llava([](auto& c) { c["text_config"]["model_type"] = "gemma"; }), HasSubstr("text_config.model_type"));
  EXPECT_THAT(llava([](auto& c) { c["text_config"]["hiden"] = 1; }), HasSubstr("text_config.hiden"));
  EXPECT_THAT(llava([](auto& c) { c["vision_config"]["hidden_act"] = "x"; }), HasSubstr("vision_config.hidden_act"));
  EXPECT_THAT(llava([](auto& c) { c["vision_config"]["model_type"] = "siglip_vision_model"; }),
              HasSubstr("expected clip_vision_model"));
  EXPECT_THAT(llava([](auto& c) { c["vision_feature_layer"] = 4; }), HasSubstr("got 4, expected -4 to 3"));
  EXPECT_THAT(llava([](auto& c) { c["image_token_index"] = 64; }), HasSubstr("below vocab_size (64)"));
  EXPECT_THAT(llava([](auto& c) { c["image_grid_pinpoints"] = 1; }), HasSubstr("image_grid_pinpoints"));
  EXPECT_THAT(qwen([](auto& c) {
                c["text_config"]["rope_parameters"]["mrope_section"] = {2, 2, 1};
              }),
              HasSubstr("head_dim / 2 (4)"));
  EXPECT_THAT(qwen([](auto& c) { c["vision_config"]["out_hidden_size"] = 16; }),
              HasSubstr("expected text_config.hidden_size (32)"));
  EXPECT_THAT(qwen([](auto& c) { c["vision_config"]["window_size"] = 7; }), HasSubstr("vision_config.window_size"));
  EXPECT_THAT(qwen([](auto& c) { c["vision_config"]["embed_dim"] = 7; }), HasSubstr("vision_config.embed_dim"));
}

TEST(PictureConfigs, OfGemma3AndIdefics3WhatTheyCannotBeIsAnError) {
  using testing::HasSubstr;
  const auto gemma = [](auto change) { return problem_of("gemma3", change); };
  const auto idefics = [](auto change) { return problem_of("idefics3", change); };
  EXPECT_THAT(gemma([](auto& c) { c["mm_tokens_per_image"] = 8; }), HasSubstr("mm_tokens_per_image: got 8"));
  EXPECT_THAT(gemma([](auto& c) { c["mm_tokens_per_image"] = 16; }), HasSubstr("the 6 patches of a picture's side"));
  EXPECT_THAT(gemma([](auto& c) { c["boi_token_index"] = 64; }), HasSubstr("boi_token_index: got 64"));
  EXPECT_THAT(gemma([](auto& c) { c["text_config"]["final_logit_softcapping"] = 30.0; }),
              HasSubstr("text_config.final_logit_softcapping"));
  EXPECT_THAT(gemma([](auto& c) { c["text_config"]["model_type"] = "gemma2"; }), HasSubstr("text_config."));
  EXPECT_THAT(gemma([](auto& c) { c["vision_config"]["model_type"] = "clip_vision_model"; }),
              HasSubstr("expected siglip_vision_model"));
  EXPECT_THAT(idefics([](auto& c) { c["scale_factor"] = 3; }), HasSubstr("scale_factor: got 3"));
  EXPECT_THAT(idefics([](auto& c) { c["vision_config"]["model_type"] = "smolvlm_vision"; }),
              HasSubstr("expected idefics3_vision"));
  EXPECT_THAT(idefics([](auto& c) { c["text_config"]["use_resampler"] = true; }), HasSubstr("use_resampler: got true"));
  EXPECT_THAT(idefics([](auto& c) { c["vision_config"]["vision_use_head"] = true; }),
              HasSubstr("idefics3_vision has no such key"));
}

TEST(PictureConfigs, OfGlm4vWhatTheyCannotBeIsAnError) {
  using testing::HasSubstr;
  const auto glm = [](auto change) { return problem_of("glm4v", change); };
  EXPECT_THAT(glm([](auto& c) { c["vision_config"]["out_hidden_size"] = 16; }),
              HasSubstr("expected text_config.hidden_size (32)"));
  EXPECT_THAT(glm([](auto& c) { c["vision_config"]["image_size"] = 3; }), HasSubstr("vision_config.image_size: got 3"));
  EXPECT_THAT(glm([](auto& c) { c["vision_config"]["model_type"] = "glm4v_moe_vision"; }),
              HasSubstr("expected glm4v_vision"));
  EXPECT_THAT(glm([](auto& c) { c["text_config"]["model_type"] = "glm4v_moe_text"; }),
              HasSubstr("text_config.model_type: got \"glm4v_moe_text\""));
  EXPECT_THAT(glm([](auto& c) { c["text_config"]["attention_bias"] = false; }),
              HasSubstr("text_config.attention_bias: got false"));
  EXPECT_THAT(glm([](auto& c) { c["text_config"]["head_dim"] = 8; }), HasSubstr("text_config.head_dim: got 8"));
  EXPECT_THAT(glm([](auto& c) {
                c["text_config"]["rope_parameters"]["mrope_section"] = {4, 2, 2};
              }),
              HasSubstr("half of what is rotated of a head (4)"));
  EXPECT_THAT(glm([](auto& c) { c["image_token_id"] = 64; }), HasSubstr("below vocab_size (64)"));
}

// As models have them that are made of published files: the same in both places.
TEST(PictureConfigs, OfQwenIdsBeyondTheVocabularyAreLeftOut) {
  const PictureGolden golden("qwen2_5_vl");
  for (const bool of_texts : {true, false}) {
    nlohmann::json config = config_of(golden);
    nlohmann::json& place = of_texts ? config["text_config"] : config;
    place["bos_token_id"] = 151643, place["eos_token_id"] = {151645, 2}, place["pad_token_id"] = 151643;
    Problems problems;
    const auto model = build_model(config::parse_json(config.dump(), "config.json", problems), "config.json");
    const config::Node written = model->hf_config();
    const config::Node* texts = of_texts ? written.find("text_config") : &written;
    EXPECT_EQ(texts->find("eos_token_id")->items().size(), 1u);
    const config::Node* begin = texts->find("bos_token_id");
    EXPECT_TRUE(!begin || begin->is_null());
  }
}

// With labels of texts, and where it is asked for, texts are a model of their own.
class TextsOfPictureModels : public testing::TestWithParam<std::string> {};
TEST_P(TextsOfPictureModels, AreAModelOfTheirOwn) {
  const PictureGolden golden(GetParam());
  const std::string whole = config_of(golden)["model_type"], texts_alone = whole + "_text";
  const std::string file = (golden.folder / "config.json").string();
  const config::Node config = config::read_file(file);
  const auto type_of = [](const Model& model) { return model.hf_config().find("model_type")->text(); };
  EXPECT_EQ(type_of(*build_model(config, file)), whole);
  const auto labelled = build_model(config, file, {.labels = {"a", "b"}});
  EXPECT_EQ(type_of(*labelled), texts_alone);
  EXPECT_EQ(labelled->pictures(), nullptr);
  const auto half = build_model(hub::half_of(config, file), file);
  EXPECT_EQ(type_of(*half), texts_alone);
  load_weights(*half, golden.folder, Precision::fp32);
  // The row without pictures.
  Batch texts = golden.batch();
  texts.pictures = {};
  Batch words = texts;
  words.ids_BT = texts.ids_BT.slice(0, 2, 3), words.segments_BT = Tensor();
  words.docs = {{.row = 0, .begin = 0, .end = texts.docs.back().end}};
  const Tensor expected = golden["logits"].slice(0, 2, 3).slice(1, 0, words.docs[0].end);
  expect_close(half->causal_lm()->logits(words).slice(1, 0, words.docs[0].end), expected, 1e-5 * largest(expected),
               "texts");
  EXPECT_THROW(hub::half_of(half->hf_config(), file), Error);
}

INSTANTIATE_TEST_SUITE_P(Models, TextsOfPictureModels, testing::Values("gemma3", "qwen3_5"),
                         [](const auto& one) { return one.param; });

// Of published models' heads: every third pair from the second, and from the third on, as long as there are sections.
TEST(Positions, InThreeDimensionsTakeTurnsAsTransformersHasThem) {
  for (const auto& sections : {std::vector<std::int64_t>{24, 20, 20}, {11, 11, 10}}) {
    std::vector<std::int64_t> expected(static_cast<std::size_t>(sections[0] + sections[1] + sections[2]));
    for (const std::size_t axis : {1, 2})
      for (std::size_t pair = axis; pair < 3 * static_cast<std::size_t>(sections[axis]); pair += 3)
        expected[pair] = static_cast<std::int64_t>(axis);
    EXPECT_EQ(models::axes_of(sections, /*by_turns=*/true), expected);
  }
  EXPECT_EQ(models::axes_of({1, 2, 3}, /*by_turns=*/false), (std::vector<std::int64_t>{0, 1, 1, 2, 2, 2}));
}

// Of the sides that published models have, each patch has its own; of 25, neighbours share some, as in transformers.
TEST(SiglipTower, PositionsAreTransformersBuckets) {
  for (const std::int64_t side : {1, 4, 26, 27, 32})
    EXPECT_TRUE(at::equal(models::bucketed_positions(side), at::arange(side * side))) << side;
  const Tensor of_25 = models::bucketed_positions(25).slice(0, 0, 25);
  std::vector<std::int64_t> other;
  for (std::int64_t i = 0; i < 25; ++i)
    if (of_25[i].item<std::int64_t>() != i) other.push_back(i);
  EXPECT_EQ(other, (std::vector<std::int64_t>{5, 9, 10, 11, 12, 13, 15, 18, 20, 23}));
}

TEST(PictureConfigs, ThereIsNoHeadForLabels) {
  const PictureGolden golden("llava");
  const std::string file = (golden.folder / "config.json").string();
  EXPECT_THROW(build_model(config::read_file(file), file, {.labels = {"a", "b"}}), Error);
}

TEST(PictureGoldens, AreThere) { EXPECT_EQ(golden_names(kPictures).size(), 24u); }

}  // namespace
}  // namespace hone::test
