// Encoders that are read by their authors' names, and what all of the newer ones must do besides computing what
// transformers computes: drop in training, be computed again alike, take LoRA, and be written and read back.
#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/adapter.h"
#include "hub/save.h"
#include "models/classifier_golden.h"
#include "models/write_tensors.h"
#include "nn/lora_targets.h"

namespace hone::test {
namespace {

class MoreEncoders : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  std::map<std::string, Tensor> golden_ = read_all(kClassifiers / name_ / "golden.safetensors");
  Batch batch_ = batch_of(golden_);
};
INSTANTIATE_TEST_SUITE_P(Models, MoreEncoders,
                         testing::Values("nomic_bert", "gte", "jina_embeddings_v3", "eurobert", "xlm-roberta-xl",
                                         "ernie", "megatron-bert", "rembert", "roformer", "roberta-prelayernorm",
                                         "data2vec-text", "deberta-v1", "esm"));

// With the share of each kind that config.json names for what it drops.
std::unique_ptr<Model> dropping(const std::string& name, double share) {
  const std::string file = (kClassifiers / name / "config.json").string();
  config::Node config = config::read_file(file);
  for (const char* key :
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "classifier_dropout_prob"})
    if (config.find(key)) config.at_or_add(key) = config::Values<double>::write(share);
  auto model = build_model(config, file);
  load_weights(*model, kClassifiers / name, Precision::fp32);
  return model;
}

Gradients learnt(Model& model, const Batch& batch, std::uint64_t seed, bool checkpoint) {
  Pass pass(batch);
  pass.training = true, pass.seed = seed, pass.checkpoint_blocks = checkpoint;
  const Tensor loss = classification_loss(model, batch, pass);
  loss.backward();
  Gradients all{{"loss", loss.detach()}};
  model.each_weight([&](const std::string& name, Weight& w) {
    if (!w.is_buffer()) all[name] = w.grad().clone(), w.clear_grad();
  });
  return all;
}

TEST_P(MoreEncoders, DropInTrainingAndAreComputedAgainAlike) {
  const auto model = dropping(name_, 0.3), still = dropping(name_, 0);
  const Gradients one = learnt(*model, batch_, 5, false), again = learnt(*model, batch_, 5, true),
                  other = learnt(*model, batch_, 6, false), none = learnt(*still, batch_, 5, false);
  for (const auto& [name, value] : one) EXPECT_TRUE(value.equal(again.at(name))) << name;
  EXPECT_FALSE(one.at("loss").equal(other.at("loss")));
  EXPECT_FALSE(one.at("loss").equal(none.at("loss")));
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(none.at("loss").item<double>(), expected, 1e-5 * std::max(1.0, expected));
}

TEST_P(MoreEncoders, TakeLoraOnEachLinearLayerOfTheirBlocksAlone) {
  const auto model = load_classifier(name_);
  std::set<std::string> in_blocks, found;
  for (const nn::NamedWeight& one : nn::lora_targets(*model, LoraConfig{}))
    found.insert(one.module);
  model->each_weight([&](const std::string& name, Weight& weight) {
    const bool matrix = weight.shape().size() == 2 && name.ends_with(".weight");
    const bool of_block = name.find("layer.") != std::string::npos || name.find("layers.") != std::string::npos;
    if (matrix && of_block) in_blocks.insert(name.substr(0, name.size() - 7));
  });
  EXPECT_FALSE(in_blocks.empty());
  for (const std::string& module : in_blocks) EXPECT_TRUE(found.contains(module)) << module;
  for (const std::string& module : found) {
    const bool inside = in_blocks.contains(module) || module.find("pooler") != std::string::npos ||
                        module.find("projec") != std::string::npos || module.find("mapping") != std::string::npos ||
                        module == "dense";
    EXPECT_TRUE(inside) << module;
  }
}

TEST_P(MoreEncoders, AreReadAsTheyAreWritten) {
  const TempFolder root;
  const auto model = load_classifier(name_);
  hub::save_model_folder(root / "made", *model, hub::model_files(*model, "", nullptr), {});
  const std::string file = (root / "made" / "config.json").string();
  const auto again = build_model(config::read_file(file), file);
  load_weights(*again, root / "made", Precision::fp32);
  std::map<std::string, Tensor> all;
  model->each_weight([&](const std::string& name, Weight& weight) { all[name] = weight.use(); });
  again->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_TRUE(weight.use().equal(all.at(name))) << name;
    all.erase(name);
  });
  EXPECT_TRUE(all.empty());
}

config::Node parsed(const std::string& json) {
  Problems problems;
  return config::parse_json(json, "config.json", problems);
}
std::unique_ptr<Model> built(const std::string& json) { return build_model(parsed(json), "config.json"); }

const std::string kNomic = R"({"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_embd": 24,
    "n_layer": 2, "n_head": 4, "n_inner": 40, "n_positions": 64, "max_trained_positions": 32, "vocab_size": 64,
    "activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": false,
    "rotary_emb_scale_base": null, "rotary_scaling_factor": null, "qkv_proj_bias": false, "mlp_fc1_bias": false,
    "mlp_fc2_bias": false, "causal": false, "use_rms_norm": false, "parallel_block": false, "type_vocab_size": 2,
    "pad_vocab_size_multiple": 64, "use_flash_attn": true, "summary_type": "cls_index", "bos_token_id": null,
    "eos_token_id": null, "scale_attn_weights": true, "initializer_range": 0.02, "use_cache": true, "prenorm": )";

TEST(PublishedEncoders, NomicsOwnKeysAreRead) {
  const config::Node made = built(kNomic + "false}")->hf_config();
  const config::Node expected = parsed(R"({"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 40, "max_position_embeddings": 32, "hidden_act": "silu", "layer_norm_eps": 1e-12})");
  for (const auto& [key, value] : expected.entries()) {
    ASSERT_TRUE(made.find(key)) << key;
    EXPECT_EQ(parse_double(made.find(key)->text()).value_or(-1), parse_double(value.text()).value_or(-1)) << key;
  }
  EXPECT_EQ(made.find("rope_parameters")->find("rope_theta")->text(), "1000.0");
  EXPECT_HONE_ERROR(built(kNomic + "true}"), config, "prenorm: got true, expected false");
  EXPECT_HONE_ERROR(built(kNomic + "false, \"num_experts\": 8}"), config, "num_experts: got 8, expected 0");
}

TEST(PublishedEncoders, GtesOwnKeysAreRead) {
  const std::string json = R"({"model_type": "new", "architectures": ["NewModel"], "hidden_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "vocab_size": 64, "pad_token_id": 0,
      "max_position_embeddings": 32, "layer_norm_type": "layer_norm", "logn_attention_clip1": false,
      "logn_attention_scale": false, "pack_qkv": true, "position_embedding_type": "rope", "rope_theta": 500,
      "rope_scaling": {"factor": 8.0, "type": "ntk"}, "type_vocab_size": 0, "unpad_inputs": false,
      "use_memory_efficient_attention": false, "layer_norm_eps": 1e-12, "classifier_dropout": null})";
  const config::Node made = built(json)->hf_config();
  EXPECT_EQ(made.find("model_type")->text(), "gte");
  EXPECT_EQ(made.find("architectures")->items().at(0).text(), "GteModel");
  // Frequencies of a base 8 times as large, divided by 8^(2 / 6), as the authors' code makes them.
  const config::Node& rope = *made.find("rope_parameters");
  EXPECT_EQ(rope.find("rope_type")->text(), "linear");
  EXPECT_NEAR(parse_double(rope.find("rope_theta")->text()).value_or(0), 4000, 1e-9);
  EXPECT_NEAR(parse_double(rope.find("factor")->text()).value_or(0), 2, 1e-6);
  const std::string scaled = replace_all(json, "\"logn_attention_scale\": false", "\"logn_attention_scale\": true");
  EXPECT_HONE_ERROR(built(scaled), config, "logn_attention_scale: got true, expected false");
}

// Whose names begin with "new.".
TEST(PublishedEncoders, GtesOwnPrefixIsRead) {
  const TempFolder root;
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : read_all(kClassifiers / "gte" / "model.safetensors"))
    tensors[name.starts_with("gte.") ? "new." + name.substr(4) : name] = tensor;
  write_tensors(root / "model.safetensors", tensors);
  std::filesystem::copy_file(kClassifiers / "gte" / "config.json", root / "config.json");
  const std::string file = (root / "config.json").string();
  const auto model = build_model(config::read_file(file), file), same = load_classifier("gte");
  load_weights(*model, root.path(), Precision::fp32);
  std::map<std::string, Tensor> all;
  same->each_weight([&](const std::string& name, Weight& weight) { all[name] = weight.use(); });
  model->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_TRUE(weight.use().equal(all.at(name))) << name;
  });
}

TEST(MoreEncodersHeads, QuestionsAreAnsweredByThoseThatTransformersHasForThem) {
  const HeadRequest questions{.labels = {"start", "end"}, .of_tokens = true, .answers_questions = true};
  for (const char* name : {"nomic_bert", "gte", "eurobert", "esm"})
    EXPECT_HONE_ERROR(load_classifier(name, questions, FreshWeights{1}), config, "that answers questions");
}

}  // namespace
}  // namespace hone::test
