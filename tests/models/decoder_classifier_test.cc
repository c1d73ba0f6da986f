// Decoders with a classification head against transformers (tools/golden/golden_decoder_classifiers.py): hidden states,
// logits, loss, every gradient, ten AdamW steps; and folders of language models, which give their bodies to it.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "models/classifier_golden.h"

namespace hone::test {
namespace {

class DecoderClassifierGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  std::map<std::string, Tensor> golden_ = read_all(kClassifiers / GetParam().name / "golden.safetensors");
  std::unique_ptr<Model> model_ = load_classifier(GetParam().name);
  Batch batch_ = batch_of(golden_);
};

TEST_P(DecoderClassifierGolden, HiddenStatesLogitsAndLoss) {
  const at::NoGradGuard no_graph;
  Pass pass(batch_);
  const Output output = model_->forward(batch_, pass);
  expect_close(output.hidden_BTD, golden_["hidden"], 1e-5 * std::max(1.0, largest(golden_["hidden"])), "hidden");
  const Tensor logits = require_classifier(*model_, "test").logits(output, pass);
  expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), "logits");
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(classification_loss(*model_, batch_, pass).item<double>(), expected, 1e-6 * std::max(1.0, expected));
}

TEST_P(DecoderClassifierGolden, EveryGradient) {
  Pass pass(batch_);
  classification_loss(*model_, batch_, pass).backward();
  expect_golden_gradients(*model_, golden_, floor_of_classifiers);
}

TEST_P(DecoderClassifierGolden, TenSteps) {
  expect_ten_golden_steps(*model_, batch_, golden_["ten_losses"],
                          [&](Pass& pass) { return classification_loss(*model_, batch_, pass); }, /*training=*/false);
}

// The last token of each document that shares a row, behind padding.
TEST_P(DecoderClassifierGolden, PackedAsPadded) {
  const at::NoGradGuard no_graph;
  Pass padded(batch_);
  const Tensor expected = model_->classifier()->logits(model_->forward(batch_, padded), padded);
  Batch packed;
  std::vector<Tensor> ids{at::zeros({2}, at::kLong)}, positions = ids;
  std::int32_t begin = 2;
  for (const Doc& doc : batch_.docs) {
    const std::int32_t length = doc.end - doc.begin;
    ids.push_back(batch_.ids_BT[doc.row].slice(0, doc.begin, doc.end));
    positions.push_back(at::arange(length));
    packed.docs.push_back({.row = 0, .begin = begin, .end = begin + length});
    begin += length;
  }
  packed.ids_BT = at::cat(ids).unsqueeze(0), packed.positions_BT = at::cat(positions).unsqueeze(0);
  Pass pass(packed);
  expect_close(model_->classifier()->logits(model_->forward(packed, pass), pass), expected, 1e-5, "packed");
}

TEST_P(DecoderClassifierGolden, ConfigComesBackAsItWas) {
  expect_same_config(kClassifiers / GetParam().name, *model_);
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderClassifierGolden,
                         testing::ValuesIn(golden_params({"llama", "qwen2", "qwen3_moe"})), print_golden);

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
