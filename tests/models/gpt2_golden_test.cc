// GPT-2 against transformers: logits, loss, every gradient, ten AdamW steps, decoding by the cache; folders as they
// are.
#include <gtest/gtest.h>

#include "hub/save.h"
#include "models/by_cache.h"
#include "models/golden_checks.h"

namespace hone::test {
namespace {

class Gpt2Golden : public LanguageGolden {
 protected:
  Gpt2Golden() : LanguageGolden("tests/golden/gpt2") {}
};

TEST_P(Gpt2Golden, LogitsAndLoss) {
  const auto model = golden_.model();
  const Batch batch = golden_.batch();
  expect_logits(*model, batch);
  Pass pass(batch);
  const at::NoGradGuard no_graph;
  EXPECT_NEAR(mean_loss(*model, batch, pass).item<double>(), golden_["loss"].item<double>(), 1e-5);
}

TEST_P(Gpt2Golden, EveryGradient) { expect_every_gradient(/*training=*/false); }
TEST_P(Gpt2Golden, TenSteps) { expect_ten_steps(/*training=*/false); }

TEST_P(Gpt2Golden, DecodingEqualsTheWholePass) { expect_cache_is_whole_pass(*golden_.model(), GetParam().name); }

TEST_P(Gpt2Golden, ConfigComesBackAsItWas) {
  const config::Node source = config::read_file((golden_.folder / "config.json").string());
  const std::vector<std::string> passed_over = {"transformers_version", "use_cache", "dtype"};
  for (const config::Change& change : config::diff(source, golden_.model()->hf_config()))
    if (std::find(passed_over.begin(), passed_over.end(), change.path) == passed_over.end() && change.before != "null")
      ADD_FAILURE() << change.path << ": was " << change.before << ", is " << change.after;
}

INSTANTIATE_TEST_SUITE_P(Models, Gpt2Golden, testing::ValuesIn(golden_params({"gpt2", "gpt2-odd"})), print_golden);

// The masks that old folders hold are no weights; the biases beside them are.
TEST(Gpt2, MasksOfOldFoldersArePassedOver) {
  const auto model = Golden("gpt2", "tests/golden/gpt2").model();
  EXPECT_TRUE(model->is_no_weight("h.0.attn.bias"));
  EXPECT_TRUE(model->is_no_weight("transformer.h.11.attn.masked_bias"));
  model->each_weight([&](const std::string& name, Weight&) { EXPECT_FALSE(model->is_no_weight(name)) << name; });
}

// transformers 5 refuses a whole number where it expects a float.
TEST(Gpt2, FloatsAreSavedAsFloats) {
  config::Node node = config::read_file("tests/golden/gpt2/gpt2/config.json");
  node.at_or_add("layer_norm_epsilon") = config::Node::scalar("1");
  const auto model = build_model(node, "config.json");
  const std::string saved = hub::model_files(*model, "", nullptr).texts.at(0).second;
  EXPECT_NE(saved.find("\"layer_norm_epsilon\": 1.0,"), std::string::npos) << saved;
  EXPECT_NE(saved.find("\"n_layer\": 2,"), std::string::npos) << saved;
}

TEST(Gpt2, WhatIsNotSupportedIsRefused) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"add_cross_attention", "true"},
                                                        {"scale_attn_weights", "false"},
                                                        {"reorder_and_upcast_attn", "true"},
                                                        {"scale_attn_by_inverse_layer_idx", "true"},
                                                        {"activation_function", "mish"},
                                                        {"n_embd", "26"}}) {
    config::Node node = config::read_file("tests/golden/gpt2/gpt2/config.json");
    node.at_or_add(key) = config::Node::scalar(value);
    EXPECT_THROW(build_model(node, "config.json"), Error) << key;
  }
}

}  // namespace
}  // namespace hone::test
