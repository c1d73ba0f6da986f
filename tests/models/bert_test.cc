// BERT with a classification head: dropout, folders with and without the head, which fill each other, and what its
// configuration may say. What it computes: classifier_golden_test.cc.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "models/classifier_golden.h"
#include "nn/plan.h"

namespace hone::test {
namespace {

std::map<std::string, Tensor> weights_of(Model& model) {
  std::map<std::string, Tensor> all;
  model.each_weight([&](const std::string& name, Weight& weight) { all[name] = weight.use().detach(); });
  return all;
}

class BertDropout : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  std::unique_ptr<Model> model_ = load_classifier(GetParam().name);
  Batch batch_ = batch_of(read_all(kClassifiers / GetParam().name / "golden.safetensors"));
};

TEST_P(BertDropout, IsAFunctionOfTheSeed) {
  const auto loss = [&](std::uint64_t seed, bool again) {
    Pass pass(batch_);
    pass.training = true, pass.seed = seed, pass.checkpoint_blocks = again;
    const Tensor made = classification_loss(*model_, batch_, pass);
    made.backward();
    Tensor gradient;
    model_->each_weight([&](const std::string& name, Weight& weight) {
      if (name == model_->base_prefix() + "embeddings.word_embeddings.weight") gradient = weight.grad().clone();
      weight.clear_grad();
    });
    return std::pair(made.item<double>(), gradient);
  };
  const auto one = loss(1, false), again = loss(1, true), other = loss(2, false);
  EXPECT_EQ(one.first, again.first);
  EXPECT_TRUE(at::equal(one.second, again.second));
  EXPECT_NE(one.first, other.first);
}

INSTANTIATE_TEST_SUITE_P(Models, BertDropout,
                         testing::ValuesIn(golden_params({"bert", "bert-odd", "bert-relu", "roberta"})), print_golden);

TEST(BertFolders, ABaseGetsANewHead) {
  const HeadRequest head{{"ham", "spam"}};
  const auto with_head = load_classifier("bert", {}), base = load_classifier("bert-base");
  EXPECT_FALSE(base->classifier());
  EXPECT_THROW(load_classifier("bert-base", head), Error);  // its head is missing, and nobody allowed a fresh one
  const auto tuned = load_classifier("bert-base", head, FreshWeights{3});
  EXPECT_EQ(require_classifier(*tuned, "test").labels(), head.labels);
  const auto expected = weights_of(*with_head), below = weights_of(*base);
  for (const auto& [name, value] : weights_of(*tuned)) {
    if (name.starts_with("classifier.")) continue;
    EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
    EXPECT_TRUE(at::equal(value, below.at(name.substr(5)))) << name;
  }
  EXPECT_EQ(tuned->hf_config().find("architectures")->items().at(0).text(), "BertForSequenceClassification");
}

TEST(BertFolders, AHeadIsLeftOutBelowAnother) {
  const auto base = load_classifier("bert-base", {}, {}, "bert");
  const auto expected = weights_of(*load_classifier("bert-base"));
  for (const auto& [name, value] : weights_of(*base)) EXPECT_TRUE(at::equal(value, expected.at(name))) << name;
}

TEST(BertFolders, OtherLabelsGetANewHead) {
  const auto weights = [](const std::optional<FreshWeights>& fresh) {
    return weights_of(*load_classifier("bert", {{"a", "b", "c"}}, fresh)).at("classifier.weight");
  };
  const Tensor kept = weights(FreshWeights{1, false}), fresh = weights(FreshWeights{1, true});
  EXPECT_TRUE(at::equal(kept, weights_of(*load_classifier("bert")).at("classifier.weight")));
  EXPECT_FALSE(at::equal(kept, fresh));
  EXPECT_TRUE(at::equal(fresh, weights(FreshWeights{1, true})));
}

// What a folder may lack, so that a head can be new: never weights of the encoder.
TEST(EncoderFolders, OnlyHeadsMayBeFresh) {
  for (const char* name : {"albert", "bert", "deberta", "distilbert", "electra", "modernbert", "mpnet", "roberta"}) {
    const auto model = load_classifier(name);
    std::int64_t of_heads = 0;
    model->each_weight([&](const std::string& weight, const Weight&) {
      const bool of_body = weight.starts_with(model->base_prefix());
      const bool pools = weight.find("pooler.") != std::string::npos;
      EXPECT_EQ(model->may_be_fresh(weight), !of_body || pools) << name << ": " << weight;
      of_heads += !of_body;
    });
    EXPECT_GE(of_heads, 2) << name;
  }
}

TEST(BertFolders, ATypeThatTheModelHasNotIsToldOfAsOne) {
  const std::map<std::string, Tensor> golden = read_all(kClassifiers / "bert" / "golden.safetensors");
  const auto model = load_classifier("bert");
  Batch batch = batch_of(golden);
  batch.extra["token_type_ids"] = at::full_like(batch.ids_BT, 7);
  Pass pass(batch);
  EXPECT_HONE_ERROR(model->forward(batch, pass), data, "token type 7: beyond those of the model; expected 0 to ");
}

TEST(BertFolders, AHeadOfOneLabelIsAScore) {
  const auto score = load_classifier("bert", {{"LABEL_0"}}, FreshWeights{1, true});
  const config::Node config = score->hf_config();
  EXPECT_EQ(config.find("id2label")->entries().size(), 1u);
  config::Node trained = config;  // as transformers saves one that it has given a loss
  trained.at_or_add("problem_type") = config::Node::scalar("regression", true);
  EXPECT_EQ(build_model(trained, "config.json")->classifier()->labels().size(), 1u);
  EXPECT_EQ(build_model(trained, "config.json")->hf_config().find("problem_type")->text(), "regression");
}

// What a head is for goes with its labels; who asks for labels alone leaves it as it is.
TEST(BertFolders, AHeadSaysWhatItIsFor) {
  using enum ProblemType;
  EXPECT_EQ(load_classifier("bert")->classifier()->problem_type(), std::nullopt);
  const std::vector<std::string> labels{"LABEL_0", "LABEL_1", "LABEL_2"};
  const auto several = load_classifier("bert", {.labels = labels, .problem_type = multi_label_classification});
  EXPECT_EQ(several->classifier()->problem_type(), multi_label_classification);
  EXPECT_EQ(several->hf_config().find("problem_type")->text(), "multi_label_classification");
  const auto again = build_model(several->hf_config(), "config.json", {.labels = labels});
  EXPECT_EQ(again->classifier()->problem_type(), multi_label_classification);
  EXPECT_EQ(load_classifier("qwen3-regression")->classifier()->problem_type(), regression);
}

// Positions count from behind the padding id: a document has so many tokens less than the table has rows.
TEST(RobertaConfigs, PositionsBeginBehindThePadding) {
  EXPECT_EQ(load_classifier("roberta")->max_positions(), 30);
  EXPECT_EQ(load_classifier("xlm-roberta")->max_positions(), 26);
  const auto model = load_classifier("roberta");
  EXPECT_NO_THROW(model->check_length(30, "test"));
  EXPECT_HONE_ERROR(model->check_length(31, "test"), config, "31");
}

TEST(BertConfigs, WhatIsNotSupportedIsRefused) {
  std::string of = "bert";
  const auto build = [&](const std::string& change) {
    config::Node node = config::read_file((kClassifiers / of / "config.json").string());
    Problems problems;
    const config::Node changes = config::parse_yaml(change, "test", problems);
    for (const auto& [key, value] : changes.entries()) node.at_or_add(key) = value;
    try {
      build_model(node, "config.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(build("{}"), "");
  for (const auto& [change, part] : std::vector<std::pair<std::string, std::string>>{
           {"is_decoder: true", "is_decoder: got true"},
           {"add_cross_attention: true", "add_cross_attention: got true"},
           {"position_embedding_type: relative_key", "position_embedding_type: got \"relative_key\""},
           {"hidden_size: 26", "hidden_size: got 26"},
           {"hidden_act: mish", "hidden_act: got \"mish\""},
           {"num_labels: [3]", "num_labels"},
           {"problem_type: ranking", "problem_type: got ranking, expected one of single_label_classification"},
           {"num_labels: 2", "num_labels: got 2, but id2label names 3"},
           {"id2label: {0: a, 2: b}", "id2label: 1 is missing"},
           {"id2label: {0: a, 1: a}", "id2label: \"a\" is there twice"},
           {"label2id: {other: 0}", "label2id: got \"other\", expected the labels of id2label"},
           {"{id2label: {0: a, 1: b, 2: c}, label2id: {a: 0, b: 2}}", "got 2 for \"b\", expected 1, as id2label says"},
           {"pad_token_id: 64", "pad_token_id"},
           {"hidden_sizes: 3", "hidden_sizes"}})
    EXPECT_NE(build(change).find(part), std::string::npos) << change << " gives: " << build(change);
  of = "roberta";
  EXPECT_EQ(build("{}"), "");
  for (const auto& [change, part] : std::vector<std::pair<std::string, std::string>>{
           {"pad_token_id: null", "pad_token_id: none, expected one"},
           {"max_position_embeddings: 2", "max_position_embeddings: got 2, expected more than pad_token_id + 1"}})
    EXPECT_NE(build(change).find(part), std::string::npos) << change << " gives: " << build(change);
}

}  // namespace
}  // namespace hone::test
