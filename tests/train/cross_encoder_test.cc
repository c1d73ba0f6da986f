// Cross-encoders against sentence-transformers (tools/golden/golden_cross_encoder.py): steps with its
// BinaryCrossEntropyLoss, and what checkpoints keep.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/errors.h"
#include "hone/hub.h"
#include "hone/trainer.h"
#include "hub/cross_encoder.h"
#include "hub/sentence_files.h"
#include "hub/text_length.h"
#include "train/support.h"

namespace hone {
namespace {

using test::values;

std::filesystem::path cross_golden(const std::string& name) { return test::golden("train/cross_encoder") / name; }

class CrossEncoders : public ::testing::Test {
 protected:
  std::filesystem::path run(const std::string& name, const test::Overrides& overrides = {}) {
    const std::string yaml = fmt::format(
        "model: {}\ndata: {{train: {}, max_length: 48, shuffle: false, cache: none}}\n"
        "objective: {{type: classification, problem_type: regression, regression_loss: binary_cross_entropy}}\n"
        "optimizer: {{type: sgd, learning_rate: 0.01, schedule: {{type: constant}}}}\n"
        "trainer: {{precision: fp32, batch_size: 6, steps: 4, log_every: 1, max_grad_norm: 0, save: {{every: 4}}}}\n"
        "run: {}\n",
        cross_golden("model").string(), cross_golden("pairs.jsonl").string(), (folder_ / name).string());
    train(read_recipe(folder_.write("recipe.yaml", yaml).string(), overrides), test::quiet_options());
    return folder_ / name;
  }
  test::TempFolder folder_;
  const nlohmann::json golden_ = test::read_json(cross_golden("scores.json"));
};

TEST_F(CrossEncoders, StepsEqualSentenceTransformers) {
  const auto made = run("steps"), cut = run("cut", {{"trainer.batch_size", "2"}, {"trainer.accumulate", "3"}});
  for (const char* key : {"loss", "grad_norm"}) {
    const std::vector<double> got = values(made, key), in_parts = values(cut, key);
    ASSERT_EQ(got.size(), golden_["run"][key].size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], golden_["run"][key][i].get<double>(), 1e-5) << key << ", step " << i + 1;
      EXPECT_NEAR(in_parts[i], got[i], 1e-5) << key << ", step " << i + 1;
    }
  }
}

TEST_F(CrossEncoders, CheckpointsAreSuchFolders) {
  const std::filesystem::path folder = run("kept") / test::step_folder(4);
  EXPECT_TRUE(hub::is_cross_encoder(folder));
  EXPECT_FALSE(hub::read_sentence_folder(folder));
  const auto model = load_model(folder.string(), Precision::fp32);
  EXPECT_TRUE(hub::shows_sigmoid(*model, folder));
  EXPECT_EQ(model->classifier()->labels().size(), 1u);
}

// Before what the tokenizer says, as the package reads it; the rest of that file stays.
TEST_F(CrossEncoders, CheckpointsSayTheLengthOfTheRunsPairs) {
  EXPECT_EQ(hub::said_length(cross_golden("model")), 64);  // the tokenizer's
  for (const auto& [name, adapter] : {std::pair{"whole", "null"}, {"beside", "{type: lora, rank: 2}"}}) {
    const std::filesystem::path folder = run(name, {{"adapter", adapter}}) / test::step_folder(4);
    EXPECT_EQ(hub::said_length(folder), 48) << name;
    EXPECT_EQ(test::read_json(folder / "sentence_bert_config.json")["transformer_task"], "sequence-classification");
  }
}

// What is watched is what is trained, of the numbers that are shown: those of sentence-transformers' logits and scores.
TEST_F(CrossEncoders, EvaluationsAreOfTheLossThatIsTrained) {
  const auto folder = run("watched", {{"data.eval", cross_golden("pairs.jsonl").string()},
                                      {"trainer.eval_at_start", "true"},
                                      {"trainer.eval_every", "4"}});
  const std::vector<double> loss = values(folder, "eval_loss"), mae = values(folder, "eval_mae");
  std::ifstream pairs(cross_golden("pairs.jsonl"));
  std::string line;
  double lost = 0, far = 0;
  std::size_t i = 0;
  for (; std::getline(pairs, line); ++i) {
    const double label = nlohmann::json::parse(line)["label"], logit = golden_["logits"][i],
                 score = golden_["scores"][i];
    lost += std::log1p(std::exp(logit)) - label * logit, far += std::abs(score - label);
  }
  ASSERT_EQ(i, golden_["logits"].size());
  ASSERT_EQ(loss.size(), 2u);
  EXPECT_NEAR(loss[0], lost / static_cast<double>(i), 1e-5);
  EXPECT_NEAR(mae[0], far / static_cast<double>(i), 1e-5);
}

// As the package saves it, config.json does not say that one label is a number: the head is there all the same.
TEST_F(CrossEncoders, AnAdapterTakesTheHeadAsItIs) {
  const auto folder = run("lora", {{"adapter", "{type: lora, rank: 2}"}}) / test::step_folder(4);
  EXPECT_TRUE(std::filesystem::exists(folder / "adapter_model.safetensors"));
  EXPECT_NEAR(values(folder_ / "lora", "loss")[0], golden_["run"]["loss"][0].get<double>(), 1e-5);
  EXPECT_HONE_ERROR(run("other", {{"adapter", "{type: lora, rank: 2}"},
                                  {"objective", "{type: classification, labels: [a, b]}"},
                                  {"trainer.batch_size", "1"},
                                  {"data.train", folder_.write("ab.jsonl", "{\"text\": \"x\", \"label\": \"a\"}\n"
                                                                           "{\"text\": \"y\", \"label\": \"b\"}\n")
                                                     .string()}}),
                    config, "the model's head is for others than is to be learnt, and an adapter's files have no place "
                            "for a new one\n  hint: train a head first, for instance with model.trainable: "
                            "[classifier]");
}

// As versions up to 4 and from 4 on say it in config.json, which stays there.
TEST_F(CrossEncoders, ConfigurationsSayHowScoresAreShown) {
  const auto shown = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = test::read_json(cross_golden("model") / "config.json");
    json[key] = value;
    const std::filesystem::path file = folder_.write("config.json", json.dump());
    const auto model = build_model(config::read_file(file.string()), file.string());
    EXPECT_TRUE(model->hf_config().find(key)) << key;
    return hub::shows_sigmoid(*model, folder_.path());
  };
  constexpr const char *kOld = "sbert_ce_default_activation_function",
                       *kSigmoid = "torch.nn.modules.activation.Sigmoid",
                       *kIdentity = "torch.nn.modules.linear.Identity";
  EXPECT_TRUE(shown(kOld, kSigmoid));
  EXPECT_FALSE(shown(kOld, kIdentity));
  EXPECT_TRUE(shown("sentence_transformers", {{"activation_fn", kSigmoid}, {"version", "4.1.0"}}));
  EXPECT_FALSE(shown("sentence_transformers", {{"activation_fn", kIdentity}, {"version", "4.1.0"}}));
  EXPECT_HONE_ERROR(shown(kOld, "my.Own"), config, "activation_fn: got \"my.Own\"");
}

// Of whatever set, before the first step.
TEST_F(CrossEncoders, NumbersThatAreNoSharesAreRefusedBeforeTheFirstStep) {
  std::string usual;
  for (int i = 0; i < 20; ++i)
    usual += fmt::format("{{\"text\": \"a\", \"text_pair\": \"b\", \"label\": {}}}\n", i % 2);
  for (const char* number : {"1.5", "-0.25"}) {
    const std::string last = fmt::format("{{\"text\": \"a\", \"text_pair\": \"b\", \"label\": {}}}\n", number);
    const std::string wrong = folder_.write("wrong.jsonl", usual + last + last).string();
    for (const char* set : {"data.train", "data.eval.some", "data.test.some"}) {
      SCOPED_TRACE(set);
      test::Overrides overrides{{set, wrong}, {"trainer.batch_size", "1"}, {"trainer.steps", "2"}};
      if (set != std::string("data.train"))
        overrides.emplace_back("data.train", folder_.write("usual.jsonl", usual).string());
      EXPECT_HONE_ERROR(run("none", overrides), data, "wrong.jsonl:21: label: got a number beyond 0 and 1");
      EXPECT_FALSE(std::filesystem::exists(folder_ / "none" / "metrics.jsonl"));
      if (set != std::string("data.train")) continue;
      overrides.emplace_back("objective.regression_loss", "squared_error");
      run("squared", overrides);
    }
  }
}

TEST_F(CrossEncoders, NumbersAreShares) {
  const std::string record = "{\"text\": \"a\", \"text_pair\": \"b\", \"label\": 1.5}\n";
  const std::string wrong = folder_.write("wrong.jsonl", record).string();
  EXPECT_HONE_ERROR(run("wrong", {{"data.train", wrong}, {"trainer.batch_size", "1"}}), data,
                    "got a number beyond 0 and 1");
}

}  // namespace
}  // namespace hone
