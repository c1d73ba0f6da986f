// Reward models against TRL's RewardTrainer (tools/golden/golden_reward.py), and what must hold without it.
#include "hone/hub.h"
#include "train/evaluate.h"
#include "train/pair_runs.h"

namespace hone {
namespace {

class RewardRuns : public test::PairRuns {
 protected:
  void SetUp() override { objective_ = "type: reward"; }
  // On the golden pairs, from the golden model.
  std::filesystem::path scored(const std::string& name, const std::string& objective = "", test::Overrides more = {},
                               const TrainOptions& options = test::quiet_options()) {
    test::Overrides all{{"model", model()}, {"trainer.steps", "10"}};
    all.insert(all.end(), more.begin(), more.end());
    return run(name, all, objective, options);
  }
  static std::string model() { return test::golden("train/reward/model").string(); }
  static std::string pairs() { return test::golden("train/dpo/pairs.jsonl").string(); }

  const nlohmann::json golden_ = test::read_json(test::golden("train/reward/reward.json"));
};

TEST_F(RewardRuns, TenStepsEqualTrl) {
  for (const auto& [name, options] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    std::string objective;
    for (const auto& [option, value] : options.items()) objective += option + ": " + value.dump();
    expect_history(scored(name, objective), golden_["runs"][name]);
  }
}

TEST_F(RewardRuns, PairsInOneMicroBatchOrEachInItsOwnOrPackedAreTheSame) {
  const auto split = [&](const char* rows, const char* times, test::Overrides more = {}) {
    more.insert(more.end(),
                {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.precision", "fp64"}});
    return scored(std::string(rows) + times, "center_rewards_coefficient: 0.1", more);
  };
  const auto eight = split("8", "1"), one = split("1", "8");
  for (const char* name : {"loss", "accuracy", "margin", "mean_reward", "grad_norm"})
    expect_near(values(eight, name), values(one, name), 1e-10);
  const auto all = split("40", "1"),
             packed = split("1", "1", {{"data.packing", "best_fit"}, {"data.max_length", "4096"}});
  expect_near(values(all, "loss"), values(packed, "loss"), 1e-10);
}

// Padding is the tokenizer's where the model's folder names none, or transformers would read one text at a time.
TEST_F(RewardRuns, CheckpointsNamePadding) {
  nlohmann::json config = test::read_json(test::golden("train/dpo") / "config.json");
  config["pad_token_id"] = nullptr;
  const std::filesystem::path base = folder_ / "base";
  std::filesystem::create_directory(base);
  std::ofstream(base / "config.json") << config;
  std::filesystem::copy_file(test::golden("train/dpo") / "model.safetensors", base / "model.safetensors");
  const auto made = scored("padded", "", {{"model", base.string()}, {"trainer.steps", "3"}});
  EXPECT_EQ(test::read_json(made / test::step_folder(3) / "config.json")["pad_token_id"], 258);
}

// A language model gets a fresh head of one label, which goes on from where it was.
TEST_F(RewardRuns, ALanguageModelGetsAHeadAndKeepsItWhenItGoesOn) {
  const test::Overrides base{{"model", test::golden("train/dpo").string()}, {"trainer.save.every", "5"}};
  const auto whole = scored("whole", "", base), parts = scored("parts", "", base);
  const nlohmann::json config = test::read_json(whole / test::step_folder(10) / "config.json");
  EXPECT_EQ(config["architectures"][0], "LlamaForSequenceClassification");
  EXPECT_EQ(config["id2label"].size(), 1u);
  EXPECT_TRUE(test::read_tensors(whole / test::step_folder(10) / "model.safetensors").contains("score.weight"));
  TrainOptions back = test::quiet_options();
  back.resume = "5";
  scored("parts", "", base, back);
  test::expect_equal_runs(whole, parts, 10);
  // From its checkpoint: with the head that it has, not a new one.
  const auto next = scored("next", "", {{"model", whole.string()}, {"optimizer.learning_rate", "0"}});
  const std::string weights = "model.safetensors";
  EXPECT_TRUE(at::equal(test::read_tensors(next / test::step_folder(10) / weights).at("score.weight"),
                        test::read_tensors(whole / test::step_folder(10) / weights).at("score.weight")));
}

// What is evaluated of held-out pairs, in training and by the evaluation, is what training sees of them.
TEST_F(RewardRuns, HeldOutPairsAreEvaluated) {
  const auto made = scored("still", "center_rewards_coefficient: 0.02",
                           {{"data.eval.all", pairs()},
                            {"optimizer.learning_rate", "0"},
                            {"optimizer.schedule", "{type: constant}"},
                            {"trainer.batch_size", "40"},
                            {"trainer.steps", "1"},
                            {"trainer.eval_every", "1"}});
  for (const char* name : {"loss", "accuracy", "margin", "mean_reward"})
    EXPECT_NEAR(values(made, name).at(0), values(made, std::string("eval_") + name).at(0), 1e-5) << name;
  const auto tokenizer = load_tokenizer("bytes");
  DataFile file;
  file.path = pairs();
  const auto data = Dataset::make({file}, *tokenizer, {.max_length = 256, .records = RecordKind::preference});
  const auto model = load_model(RewardRuns::model(), Precision::fp32);
  const Metrics measured =
      *training::evaluate(*model, training::make_evaluations({"reward"}), *data, {.batch_size = 7});
  for (const char* name : {"accuracy", "margin", "mean_reward"})
    EXPECT_NEAR(measured.at(name), values(made, name).at(0), 1e-5) << name;
  const auto plain = scored("plain", "", {{"trainer.batch_size", "40"}, {"trainer.steps", "3"}});
  EXPECT_NEAR(measured.at("loss"), values(plain, "loss").at(0), 1e-5);
  EXPECT_EQ(measured.at("pairs"), 40);
}

TEST_F(RewardRuns, LearnsWhatIsChosen) {
  const auto made = scored("long", "", {{"trainer.steps", "150"}, {"optimizer.learning_rate", "1e-2"}});
  EXPECT_GT(values(made, "accuracy").back(), 0.99);
  EXPECT_LT(values(made, "loss").back(), 0.2);
}

TEST_F(RewardRuns, WhatCannotBeIsRefused) {
  const std::string texts = folder_.write("texts.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n").string();
  EXPECT_HONE_ERROR(run("a", {{"model", model()}, {"objective", "causal_lm"}, {"data.train", texts}}), config,
                    "objective causal_lm: needs a language-model head");
  objective_ = "type: dpo, reference: " + model();
  EXPECT_HONE_ERROR(run("c"), config, "objective.reference: needs a language-model head, and a classification head");
  objective_ = "type: dpo";
  EXPECT_HONE_ERROR(scored("b"), config, "objective dpo: needs a language-model head");
  objective_ = "type: reward";
  EXPECT_HONE_ERROR(run("d", {{"adapter", "{type: lora}"}}), config,
                    "train a head first, for instance with "
                    "model.trainable: [score]");
  const std::string labelled = folder_
                                   .write("labelled.jsonl",
                                          "{\"text\": \"a\", \"label\": \"x\"}\n"
                                          "{\"text\": \"b\", \"label\": \"y\"}\n")
                                   .string();
  objective_ = "type: classification";  // a score has no say in what labels there are
  scored("labels", "", {{"data.train", labelled}, {"trainer.steps", "3"}, {"trainer.batch_size", "2"}});
  EXPECT_HONE_ERROR(training::make_evaluations({"classification"}).at(0)->check(*load_model(model(), Precision::fp32)),
                    config, "has one label; expected at least two");
  EXPECT_HONE_ERROR(training::make_evaluations({"reward"})
                        .at(0)
                        ->check(*load_model(test::golden("train/dpo").string(), Precision::fp32)),
                    config, "evaluation reward: needs a head of one label, a score; this model has none");
}

}  // namespace
}  // namespace hone
