// Older decoders with a head for labels of texts or of tokens against transformers: hidden states, logits, loss, every
// gradient, ten AdamW steps; documents that share a row; configurations that come back.
#include <gtest/gtest.h>

#include "models/classifier_golden.h"

namespace hone::test {
namespace {

class DecoderHeadGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  bool of_tokens() const { return model_->classifier()->of_tokens(); }
  ops::LevelScope scope_{GetParam().level()};
  std::map<std::string, Tensor> golden_ = read_all(kClassifiers / GetParam().name / "golden.safetensors");
  std::unique_ptr<Model> model_ = load_classifier(GetParam().name);
  Batch batch_ = of_tokens() ? token_batch_of(golden_) : batch_of(golden_);
  Tensor seen_BT1_ = golden_.at("attention_mask").unsqueeze(-1);
};

TEST_P(DecoderHeadGolden, HiddenStatesLogitsAndLoss) {
  const at::NoGradGuard no_graph;
  EXPECT_EQ(of_tokens(), GetParam().name.starts_with("tokens-"));
  Pass pass(batch_);
  const Output output = model_->forward(batch_, pass);
  expect_close(output.hidden_BTD * seen_BT1_, golden_["hidden"], 1e-5 * std::max(1.0, largest(golden_["hidden"])),
               "hidden");
  Tensor logits = model_->classifier()->logits(output, pass);
  if (of_tokens()) logits = logits * seen_BT1_;
  expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), "logits");
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(classification_loss(*model_, batch_, pass).item<double>(), expected, 1e-6 * std::max(1.0, expected));
}

TEST_P(DecoderHeadGolden, EveryGradient) {
  Pass pass(batch_);
  classification_loss(*model_, batch_, pass).backward();
  expect_golden_gradients(*model_, golden_, floor_of_classifiers);
}

TEST_P(DecoderHeadGolden, TenSteps) {
  expect_ten_golden_steps(
      *model_, batch_, golden_["ten_losses"], [&](Pass& pass) { return classification_loss(*model_, batch_, pass); },
      /*training=*/false);
}

// Documents that share a row have the logits that they have alone.
TEST_P(DecoderHeadGolden, PackedAsPadded) {
  const at::NoGradGuard no_graph;
  Batch packed;
  std::vector<Tensor> ids, positions, expected;
  std::int32_t begin = 0;
  for (const Doc& doc : batch_.docs) {
    const std::int32_t length = doc.end - doc.begin;
    ids.push_back(batch_.ids_BT[doc.row].slice(0, doc.begin, doc.end));
    positions.push_back(at::arange(length));
    if (of_tokens()) expected.push_back(golden_["logits"][doc.row].slice(0, doc.begin, doc.end));
    packed.docs.push_back({.row = 0, .begin = begin, .end = begin + length});
    begin += length;
  }
  packed.ids_BT = at::cat(ids).unsqueeze(0), packed.positions_BT = at::cat(positions).unsqueeze(0);
  Pass pass(packed);
  const Tensor made = model_->classifier()->logits(model_->forward(packed, pass), pass);
  expect_close(of_tokens() ? made[0] : made, of_tokens() ? at::cat(expected) : golden_["logits"],
               1e-5 * std::max(1.0, largest(golden_["logits"])), "packed");
}

TEST_P(DecoderHeadGolden, ConfigComesBackAsItWas) {
  std::set<std::string> but{"transformers_version"};
  // What hone does not write of it, or only where it is said.
  if (GetParam().name == "gpt2") but.insert({"dtype", "use_cache", "n_inner", "summary_activation"});
  expect_same_config(kClassifiers / GetParam().name, *model_, but);
}

INSTANTIATE_TEST_SUITE_P(
    Models, DecoderHeadGolden,
    testing::ValuesIn(golden_params({"opt", "olmo", "gpt_neo", "gptj", "bloom", "falcon", "mpt", "gpt_bigcode",
                                     "helium", "biogpt", "modernbert-decoder", "modernbert-decoder-bias", "gpt2",
                                     "gpt_neox", "tokens-gpt_neo", "tokens-bloom", "tokens-falcon", "tokens-mpt",
                                     "tokens-gpt_bigcode", "tokens-helium", "tokens-biogpt", "tokens-gpt_neox"})),
    print_golden);

// The body of a language model's folder gives its weights to a classifier, whose head is fresh.
TEST(DecoderHeads, ALanguageModelGetsAHead) {
  for (const auto& [name, of_tokens] : {std::pair{"bloom", true}, {"opt", false}, {"modernbert-decoder", false}}) {
    const std::filesystem::path folder = std::filesystem::path("tests/golden/decoders") / name;
    const HeadRequest head{.labels = {"a", "b", "c"}, .of_tokens = of_tokens};
    const auto model = build_model(config::read_file((folder / "config.json").string()), "config.json", head);
    load_weights(*model, folder, Precision::fp32, FreshWeights{3});
    EXPECT_EQ(model->classifier()->labels(), head.labels) << name;
    EXPECT_EQ(model->classifier()->of_tokens(), of_tokens) << name;
    EXPECT_FALSE(model->causal_lm()) << name;
  }
}

}  // namespace
}  // namespace hone::test
