// Decoders with a classification head and the folders of language models, which give their bodies to it. What they
// compute: classifier_golden_test.cc.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "models/classifier_golden.h"

namespace hone::test {
namespace {

std::unique_ptr<Model> from_language_model(const HeadRequest& head, const std::optional<FreshWeights>& fresh) {
  const std::filesystem::path folder = "tests/golden/models/llama";
  std::unique_ptr<Model> model = build_model(config::read_file(folder / "config.json"), "config.json", head);
  load_weights(*model, folder, Precision::fp32, fresh);
  return model;
}

TEST(DecoderClassifiers, ALanguageModelGetsAHead) {
  const HeadRequest head{{"ham", "spam"}};
  EXPECT_THROW(from_language_model(head, {}), Error);  // its head is missing, and nobody allowed a fresh one
  const auto made = from_language_model(head, FreshWeights{3}), plain = from_language_model({}, {});
  EXPECT_FALSE(made->causal_lm());
  EXPECT_FALSE(plain->classifier());
  EXPECT_EQ(require_classifier(*made, "test").labels(), head.labels);
  std::map<std::string, Tensor> body;
  plain->each_weight([&](const std::string& name, Weight& weight) { body[name] = weight.use(); });
  made->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_NE(name, "lm_head.weight");
    if (name == "score.weight") return;
    EXPECT_TRUE(at::equal(weight.use(), body.at(name))) << name;
  });
  const config::Node config = made->hf_config();
  EXPECT_EQ(config.find("architectures")->items().at(0).text(), "LlamaForSequenceClassification");
  EXPECT_EQ(config.find("id2label")->find("1")->text(), "spam");
}

TEST(DecoderClassifiers, AHeadIsForOneThing) {
  const auto classifier = load_classifier("llama");
  EXPECT_HONE_ERROR(require_causal_lm(*classifier, "generate"), config, "generate: needs a language-model head");
  const auto score = from_language_model({{"LABEL_0"}}, FreshWeights{3});
  EXPECT_EQ(score->classifier()->labels().size(), 1u);
  EXPECT_HONE_ERROR(require_classifier(*score, "classification"), config,
                    "classification: the model's classification head has one label; expected at least two");
}

}  // namespace
}  // namespace hone::test
