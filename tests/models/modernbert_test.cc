// ModernBERT's configurations and folders; tests/models/classifier_golden_test.cc and masked_golden_test.cc have its
// numbers.
#include <gtest/gtest.h>

#include "models/classifier_golden.h"

namespace hone::test {
namespace {

const std::filesystem::path kModernMasked = "tests/golden/masked/modernbert";

config::Node with(config::Node node, const std::string& changes) {
  Problems problems;
  const config::Node changed = config::parse_yaml(changes, "test", problems);
  problems.raise();
  for (const auto& [key, value] : changed.entries()) node.at_or_add(key) = value;
  return node;
}

config::Node source() { return config::read_file((kClassifiers / "modernbert" / "config.json").string()); }

// As transformers 4 wrote them, and the folders on the hub have them.
TEST(ModernBertConfigs, OldKeysMeanTheSame) {
  config::Node old = with(source(),
                          "{global_attn_every_n_layers: 3, global_rope_theta: 160000.0, local_rope_theta: 10000.0, "
                          "layer_norm_eps: 1e-5, position_embedding_type: absolute, reference_compile: null, "
                          "gradient_checkpointing: false, repad_logits_with_grad: false}");
  std::erase_if(old.entries(), [](const config::Node::Entry& entry) {
    return entry.first == "layer_types" || entry.first == "rope_parameters";
  });
  const auto model = build_model(old, "config.json");
  for (const config::Change& change : config::diff(source(), model->hf_config()))
    EXPECT_TRUE(change.path == "transformers_version" || change.path == "dtype") << change.path;  // no weights yet
}

TEST(ModernBertConfigs, LayersSeeAllOrWhatIsNear) {
  const auto model = build_model(source(), "config.json");
  std::vector<std::int64_t> windows;
  for (const AttentionLayer& layer : model->attention()) {
    EXPECT_FALSE(layer.causal);
    windows.push_back(layer.window);
  }
  EXPECT_EQ(windows, (std::vector<std::int64_t>{0, 4, 4, 0}));
}

TEST(ModernBertConfigs, WhatIsNotSupportedIsRefused) {
  for (const auto& [change, part] : std::vector<std::pair<std::string, std::string>>{
           {"layer_types: [full_attention]", "layer_types: got 1 layer, expected one for each of 4 layers"},
           {"layer_types: [a, b, c, d]", "layer_types: got \"a\""},
           {"hidden_size: 26", "hidden_size: got 26"},
           {"hidden_activation: mish", "hidden_activation: got \"mish\""},
           {"rope_parameters: {rope_theta: 1.0}", "expected sections full_attention and sliding_attention"},
           {"classifier_pooling: max", "classifier_pooling"},
           {"pad_token_id: 64", "pad_token_id"}}) {
    std::string told;
    try {
      build_model(with(source(), change), "config.json");
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_NE(told.find(part), std::string::npos) << change << " gives: " << told;
  }
}

// What both heads begin with goes from one to the other, as in transformers.
TEST(ModernBertFolders, HeadsComeAndGo) {
  const auto build = [](const std::filesystem::path& folder, const HeadRequest& head) {
    const std::string file = (folder / "config.json").string();
    auto model = build_model(config::read_file(file), file, head);
    load_weights(*model, folder, Precision::fp32, FreshWeights{.seed = 1});
    return model;
  };
  const auto expect_same = [](const Model& model, const std::filesystem::path& folder,
                              const std::set<std::string>& fresh) {
    const auto from = read_all(folder / "model.safetensors");
    model.each_weight([&](const std::string& name, const Weight& weight) {
      if (fresh.contains(name)) return;
      ASSERT_TRUE(from.contains(name)) << name;
      EXPECT_TRUE(weight.use().equal(from.at(name))) << name;
    });
  };
  const auto labelled = build(kModernMasked, {.labels = {"a", "b"}});
  ASSERT_NE(labelled->classifier(), nullptr);
  expect_same(*labelled, kModernMasked, {"classifier.weight", "classifier.bias"});
  const auto masked = build(kClassifiers / "modernbert", {.masked_lm = true});
  ASSERT_NE(masked->masked_lm(), nullptr);
  EXPECT_EQ(masked->classifier(), nullptr);
  expect_same(*masked, kClassifiers / "modernbert", {"decoder.bias"});
}

// Alone, weights have no prefix.
TEST(ModernBertFolders, AreReadWithoutAHead) {
  const auto model = build_model(with(source(), "architectures: [ModernBertModel]"), "config.json");
  load_weights(*model, kClassifiers / "modernbert", Precision::fp32, {});
  EXPECT_EQ(model->classifier(), nullptr);
  const auto from = read_all(kClassifiers / "modernbert" / "model.safetensors");
  model->each_weight([&](const std::string& name, const Weight& weight) {
    EXPECT_TRUE(weight.use().equal(from.at("model." + name))) << name;
  });
  EXPECT_EQ(model->hf_config().find("architectures")->items()[0].text(), "ModernBertModel");
}

}  // namespace
}  // namespace hone::test
