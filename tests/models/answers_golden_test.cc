// Encoders with a head that answers questions against transformers: hidden states, logits, loss, every gradient, ten
// AdamW steps; folders with other heads; and what DeBERTa's folders may have.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "harness/files.h"
#include "hone/questions.h"
#include "hub/save.h"
#include "models/classifier_golden.h"
#include "models/write_tensors.h"

namespace hone::test {
namespace {

const std::filesystem::path kAnswers = "tests/golden/answers";

std::unique_ptr<Model> model_in(const std::filesystem::path& folder, const HeadRequest& head = {},
                                const std::optional<FreshWeights>& fresh = {}) {
  const std::string file = (folder / "config.json").string();
  std::unique_ptr<Model> model = build_model(config::read_file(file), file, head);
  load_weights(*model, folder, Precision::fp32, fresh);
  return model;
}

const HeadRequest kForAnswers{.labels = {"start", "end"}, .of_tokens = true, .answers_questions = true};

// From token 5 on there is the text.
Batch answer_batch(const std::map<std::string, Tensor>& golden) {
  const Tensor& ids = golden.at("input_ids");
  Batch batch = make_batch(ids, at::full_like(ids, -100), golden.at("attention_mask"));
  if (golden.contains("token_type_ids")) batch.extra["token_type_ids"] = golden.at("token_type_ids");
  batch.labels_BT.slice(1, 5).fill_(static_cast<std::int64_t>(AnswerPlace::inside));
  for (std::int64_t row = 0; row < ids.size(0); ++row) {
    const auto start = golden.at("start_positions")[row].item<std::int64_t>(),
               end = golden.at("end_positions")[row].item<std::int64_t>();
    batch.labels_BT[row][end] = static_cast<std::int64_t>(AnswerPlace::end);
    batch.labels_BT[row][start] =
        static_cast<std::int64_t>(start == end ? AnswerPlace::start_and_end : AnswerPlace::start);
  }
  return batch;
}

Tensor answer_loss_of(const Model& model, const Batch& batch, Pass& pass) {
  const auto& known = registries().objectives;
  const auto objective = known.make("question_answering", *known.options("question_answering"));
  objective->check(model);
  const LossTerms terms = objective->loss(model, model.forward(batch, pass), batch, pass);
  return terms.terms.at(0).sum / objective->sums(batch).at(terms.terms[0].per);
}

class AnswersGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  std::map<std::string, Tensor> golden_ = read_all(kAnswers / GetParam().name / "golden.safetensors");
  std::unique_ptr<Model> model_ = model_in(kAnswers / GetParam().name);
  Batch batch_ = answer_batch(golden_);
};

TEST_P(AnswersGolden, HiddenStatesLogitsAndLoss) {
  const at::NoGradGuard no_graph;
  Pass pass(batch_);
  const Output output = model_->forward(batch_, pass);
  expect_close(output.hidden_BTD, golden_["hidden"], 1e-5 * std::max(1.0, largest(golden_["hidden"])), "hidden");
  expect_close(require_question_answerer(*model_, "test").logits(output, pass), golden_["logits"],
               1e-5 * std::max(1.0, largest(golden_["logits"])), "logits");
  const double expected = golden_["loss"].item<double>();
  EXPECT_NEAR(answer_loss_of(*model_, batch_, pass).item<double>(), expected, 2e-6 * expected);
}

TEST_P(AnswersGolden, EveryGradient) {
  Pass pass(batch_);
  answer_loss_of(*model_, batch_, pass).backward();
  // What moves the scores of all tokens alike is seen by no softmax over them.
  expect_golden_gradients(*model_, golden_, [](const std::string& weight) {
    for (const char* end : {"qa_outputs.bias", "classifier.bias", "layer.1.output.LayerNorm.bias",
                            "layer.1.output_layer_norm.bias", "full_layer_layer_norm.bias",
                            "layers.1.post_mlp_layernorm.bias", "encoder.LayerNorm.bias", "encoder.ln.bias",
                            "roberta_prelayernorm.LayerNorm.bias"})
      if (weight.ends_with(end)) return 1e-1;
    return floor_of_keys(weight);
  });
}

TEST_P(AnswersGolden, TenSteps) {
  expect_ten_golden_steps(
      *model_, batch_, golden_["ten_losses"], [&](Pass& pass) { return answer_loss_of(*model_, batch_, pass); },
      /*training=*/false);
}

// Documents of other lengths beside it, padding, and a row that they share change no loss of a document.
TEST_P(AnswersGolden, PackedAsAlone) {
  const at::NoGradGuard no_graph;
  const auto part = [&](const Tensor& x, std::int64_t row, std::int64_t length) { return x[row].slice(0, 0, length); };
  const std::int64_t lengths[] = {12, 8, 12, 12, 11};
  Batch packed;
  std::vector<Tensor> ids, labels, positions, types;
  double alone = 0;
  std::int32_t begin = 0;
  for (std::int64_t row = 0; row < 5; ++row) {
    const std::int64_t length = lengths[row];
    ids.push_back(part(batch_.ids_BT, row, length)), labels.push_back(part(batch_.labels_BT, row, length));
    positions.push_back(at::arange(length));
    const Tensor seen = at::ones({1, length}, at::kLong);
    Batch one = make_batch(ids.back().unsqueeze(0), seen * -100, seen);
    one.labels_BT = labels.back().unsqueeze(0).contiguous();
    if (batch_.extra.contains("token_type_ids")) {
      types.push_back(part(batch_.extra.at("token_type_ids"), row, length));
      one.extra["token_type_ids"] = types.back().unsqueeze(0);
    }
    Pass pass(one);
    alone += answer_loss_of(*model_, one, pass).item<double>() / 5;
    packed.docs.push_back({.row = 0, .begin = begin, .end = begin + static_cast<std::int32_t>(length)});
    begin += static_cast<std::int32_t>(length);
  }
  const auto in_row = [](const std::vector<Tensor>& parts) { return at::cat(parts).unsqueeze(0).contiguous(); };
  packed.ids_BT = in_row(ids), packed.labels_BT = in_row(labels), packed.positions_BT = in_row(positions);
  if (!types.empty()) packed.extra["token_type_ids"] = in_row(types);
  Pass pass(packed);
  EXPECT_NEAR(answer_loss_of(*model_, packed, pass).item<double>(), alone, 2e-6 * alone);
}

TEST_P(AnswersGolden, ConfigComesBackAsItWas) { expect_same_config(kAnswers / GetParam().name, *model_); }

TEST_P(AnswersGolden, AreWrittenAsTransformersWritesThem) {
  const TempFolder root;
  hub::save_model_folder(root / "made", *model_, hub::model_files(*model_, "", nullptr), {});
  const auto source = read_all(kAnswers / GetParam().name / "model.safetensors"),
             written = read_all(root / "made" / "model.safetensors");
  const auto again = model_in(root / "made");
  again->each_weight([&](const std::string& name, const Weight& weight) {
    EXPECT_TRUE(at::equal(written.at(name), weight.use())) << name;
  });
  // These it writes by their authors' names, or with numbers that follow from their places.
  if (GetParam().name == "jina_embeddings_v3" || GetParam().name == "roformer") return;
  ASSERT_EQ(written.size(), source.size());
  for (const auto& [key, tensor] : source) EXPECT_TRUE(at::equal(written.at(key), tensor)) << key;
}

INSTANTIATE_TEST_SUITE_P(Models, AnswersGolden,
                         testing::ValuesIn(golden_params({"bert", "roberta", "distilbert", "modernbert", "deberta",
                                                          "electra", "albert", "mpnet", "jina_embeddings_v3",
                                                          "xlm-roberta-xl", "ernie", "megatron-bert", "rembert",
                                                          "roformer", "roberta-prelayernorm", "data2vec-text",
                                                          "deberta-v1"})),
                         print_golden);

// A classifier's folder has the body; what its head was is passed over, and the other way round.
class AnswersFolders : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, AnswersFolders,
                         testing::Values("bert", "roberta", "distilbert", "modernbert", "deberta", "electra", "albert",
                                         "mpnet", "jina_embeddings_v3", "xlm-roberta-xl", "ernie", "megatron-bert",
                                         "rembert", "roformer", "roberta-prelayernorm", "data2vec-text",
                                         "deberta-v1"));

TEST_P(AnswersFolders, HeadsComeAndGo) {
  for (const auto& [folder, head] : {std::pair{kClassifiers / GetParam(), kForAnswers},
                                     {"tests/golden/masked" / std::filesystem::path(GetParam()), kForAnswers},
                                     {kAnswers / GetParam(), HeadRequest{.labels = {"a", "b", "c"}}},
                                     {kAnswers / GetParam(), HeadRequest{.masked_lm = true}}}) {
    SCOPED_TRACE(folder.string());
    const auto model = model_in(folder, head, FreshWeights{.seed = 1, .other_labels = true});
    EXPECT_EQ(model->classifier() != nullptr, !head.labels.empty());
    EXPECT_EQ(model->masked_lm() != nullptr, head.masked_lm);
    if (model->classifier()) {
      EXPECT_EQ(model->classifier()->answers_questions(), head.answers_questions);
    }
    const auto from = read_all(folder / "model.safetensors");
    model->each_weight([&](const std::string& name, const Weight& weight) {
      if (name.starts_with(model->base_prefix()) && from.contains(name)) {
        EXPECT_TRUE(weight.use().equal(from.at(name))) << name;
      }
    });
  }
}

TEST(Answers, AHeadIsForOneThing) {
  const auto answers = model_in(kAnswers / "bert"), of_tokens = load_classifier("tokens-bert");
  EXPECT_HONE_ERROR(require_classifier(*answers, "classify"), config, "the model's head answers questions");
  EXPECT_HONE_ERROR(require_token_classifier(*answers, "classify"), config, "has one that answers questions");
  EXPECT_HONE_ERROR(require_question_answerer(*of_tokens, "evaluation question_answering"), config,
                    "needs a head that says where in a text an answer stands");
}

// Version 3's folders have no architectures, and weights of the heads that it was trained with.
TEST(Deberta, PublishedFoldersAreRead) {
  const TempFolder root;
  const auto source = read_all("tests/golden/masked/deberta/model.safetensors");
  std::map<std::string, Tensor> tensors = source;
  tensors["mask_predictions.dense.weight"] = at::ones({4, 4});
  tensors["deberta.embeddings.position_embeddings.weight"] = at::ones({32, 24});
  write_tensors(root / "model.safetensors", tensors);
  config::Node config = config::read_file("tests/golden/masked/deberta/config.json");
  std::erase_if(config.entries(), [](const auto& entry) { return entry.first == "architectures"; });
  config.at_or_add("pos_att_type") = config::Node::scalar("p2c|c2p", /*quoted=*/true);
  const auto build = [&](const HeadRequest& head) {
    auto model = build_model(config, "config.json", head);
    load_weights(*model, root.path(), Precision::fp32, FreshWeights{.seed = 1});
    return model;
  };
  for (const HeadRequest& head : {HeadRequest{}, HeadRequest{.labels = {"a", "b"}}, kForAnswers}) {
    const auto model = build(head);
    std::int64_t seen = 0;
    model->each_weight([&](const std::string& name, const Weight& weight) {
      const std::string known = name.starts_with("deberta.") ? name : "deberta." + name;
      if (!source.contains(known)) return;
      ++seen;
      EXPECT_TRUE(weight.use().equal(source.at(known))) << name;
    });
    EXPECT_GT(seen, 30);
    EXPECT_EQ(model->hf_config().find("pos_att_type")->items().size(), 2u);
  }
}

// What ELECTRA is published as: its discriminator, whose own head is passed over.
TEST(Electra, DiscriminatorsAreRead) {
  const TempFolder root;
  const auto source = read_all("tests/golden/classifiers/electra/model.safetensors");
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : source)
    if (name.starts_with("electra.")) tensors[name] = tensor;
  tensors["discriminator_predictions.dense.weight"] = at::ones({24, 24});
  tensors["discriminator_predictions.dense_prediction.bias"] = at::ones({1});
  tensors["electra.embeddings.position_ids"] = at::ones({1, 32});
  write_tensors(root / "model.safetensors", tensors);
  config::Node config = config::read_file("tests/golden/classifiers/electra/config.json");
  config.at_or_add("architectures") = config::Node::list({config::Node::scalar("ElectraForPreTraining", true)});
  for (const HeadRequest& head : {HeadRequest{}, HeadRequest{.labels = {"a", "b"}}, HeadRequest{.masked_lm = true}}) {
    auto model = build_model(config, "config.json", head);
    load_weights(*model, root.path(), Precision::fp32, FreshWeights{.seed = 1});
    std::int64_t seen = 0;
    model->each_weight([&](const std::string& name, const Weight& weight) {
      const std::string known = name.starts_with("electra.") ? name : "electra." + name;
      if (!source.contains(known)) return;
      ++seen;
      EXPECT_TRUE(weight.use().equal(source.at(known))) << name;
    });
    EXPECT_GT(seen, 30);
  }
}

TEST(Deberta, WhatIsNotSupportedIsRefused) {
  const auto build = [](const char* key, const char* value) {
    config::Node config = config::read_file("tests/golden/classifiers/deberta/config.json");
    config.at_or_add(key) = config::Node::scalar(value);
    build_model(config, "config.json");
  };
  EXPECT_HONE_ERROR(build("conv_kernel_size", "4"), config, "conv_kernel_size: got 4, expected an odd number");
  EXPECT_HONE_ERROR(build("conv_groups", "2"), config, "conv_groups: got 2, expected 1");
  EXPECT_HONE_ERROR(build("embedding_size", "8"), config, "embedding_size: got 8, expected 24");
  EXPECT_HONE_ERROR(build("norm_rel_ebd", "batch_norm"), config, "expected layer_norm or none");
  EXPECT_HONE_ERROR(build("pos_att_type", "c2p|p2p"), config, "got \"p2p\", expected c2p and p2c");
}

// Texts that are longer than positions are told apart, and dropout, whose numbers depend on the seed alone.
TEST(Deberta, LongTextsAndDropout) {
  const auto model = load_classifier("deberta");
  const Tensor ids = at::randint(6, 64, {2, 90}, at::kLong);
  const Batch batch = make_batch(ids, at::full_like(ids, -100), at::ones_like(ids));
  const auto hidden = [&](std::uint64_t seed, bool training) {
    const at::NoGradGuard no_graph;
    Pass pass(batch);
    pass.training = training, pass.seed = seed;
    return model->forward(batch, pass).hidden_BTD;
  };
  EXPECT_TRUE(hidden(1, false).isfinite().all().item<bool>());
  EXPECT_TRUE(hidden(1, true).equal(hidden(1, true)));
  EXPECT_FALSE(hidden(1, true).equal(hidden(2, true)));
}

}  // namespace
}  // namespace hone::test
