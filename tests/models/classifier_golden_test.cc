// Models with a classification head against transformers: hidden states, logits, loss, every gradient, ten AdamW steps.
#include "models/classifier_golden.h"

#include <gtest/gtest.h>

namespace hone::test {
namespace {

class ClassifierGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  std::map<std::string, Tensor> golden_ = read_all(kClassifiers / GetParam().name / "golden.safetensors");
  std::unique_ptr<Model> model_ = load_classifier(GetParam().name);
  Batch batch_ = batch_of(golden_);
};

TEST_P(ClassifierGolden, HiddenStatesLogitsAndLoss) {
  const at::NoGradGuard no_graph;
  Pass pass(batch_);
  const Output output = model_->forward(batch_, pass);
  expect_close(output.hidden_BTD, golden_["hidden"], 1e-5 * std::max(1.0, largest(golden_["hidden"])), "hidden");
  const Tensor logits = require_classifier(*model_, "test", 1).logits(output, pass);
  expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), "logits");
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(classification_loss(*model_, batch_, pass).item<double>(), expected, 1e-6 * std::max(1.0, expected));
}

TEST_P(ClassifierGolden, EveryGradient) {
  Pass pass(batch_);
  classification_loss(*model_, batch_, pass).backward();
  expect_golden_gradients(*model_, golden_, floor_of_classifiers);
}

TEST_P(ClassifierGolden, TenSteps) {
  expect_ten_golden_steps(
      *model_, batch_, golden_["ten_losses"], [&](Pass& pass) { return classification_loss(*model_, batch_, pass); },
      /*training=*/false);
}

// Documents that share a row do not see each other, and padding in front changes nothing.
TEST_P(ClassifierGolden, PackedAsPadded) {
  const at::NoGradGuard no_graph;
  Pass padded(batch_);
  const Tensor expected = model_->classifier()->logits(model_->forward(batch_, padded), padded);
  const bool typed = batch_.extra.contains("token_type_ids");
  Batch packed;
  std::vector<Tensor> ids, types, positions;
  std::int32_t begin = 2;
  for (const Doc& doc : batch_.docs) {
    const std::int32_t length = doc.end - doc.begin;
    ids.push_back(batch_.ids_BT[doc.row].slice(0, doc.begin, doc.end));
    if (typed) types.push_back(batch_.extra.at("token_type_ids")[doc.row].slice(0, doc.begin, doc.end));
    positions.push_back(at::arange(length));
    packed.docs.push_back({.row = 0, .begin = begin, .end = begin + length});
    begin += length;
  }
  const Tensor front = at::zeros({2}, at::kLong);
  const auto row = [&](std::vector<Tensor> parts) {
    parts.insert(parts.begin(), front);
    return at::cat(parts).unsqueeze(0);
  };
  packed.ids_BT = row(ids), packed.positions_BT = row(positions);
  if (typed) packed.extra["token_type_ids"] = row(types);
  Pass pass(packed);
  expect_close(model_->classifier()->logits(model_->forward(packed, pass), pass), expected, 1e-5, "packed");
}

TEST_P(ClassifierGolden, ConfigComesBackAsItWas) { expect_same_config(kClassifiers / GetParam().name, *model_); }

INSTANTIATE_TEST_SUITE_P(Models, ClassifierGolden,
                         testing::ValuesIn(golden_params({"bert", "bert-odd", "bert-relu", "roberta", "xlm-roberta",
                                                          "llama", "qwen2", "qwen3_moe", "bert-regression",
                                                          "roberta-several", "qwen3-regression", "mistral-several",
                                                          "modernbert", "modernbert-odd", "distilbert", "deberta",
                                                          "deberta-odd", "deberta-one", "electra", "albert",
                                                          "albert-groups", "mpnet", "nomic_bert", "nomic_bert-odd",
                                                          "gte", "gte-odd", "jina_embeddings_v3", "eurobert",
                                                          "eurobert-bos", "eurobert-mean", "xlm-roberta-xl", "ernie",
                                                          "ernie-plain", "megatron-bert", "rembert", "roformer",
                                                          "roberta-prelayernorm", "data2vec-text", "deberta-v1",
                                                          "deberta-v1-odd", "esm", "esm-odd"})),
                         print_golden);

}  // namespace
}  // namespace hone::test
