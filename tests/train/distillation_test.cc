// Distillation against TRL's GKDTrainer (tools/golden/golden_distillation.py), and what must hold without it.
#include "hone/hub.h"
#include "hub/save.h"
#include "train/pair_runs.h"

namespace hone {
namespace {

class DistillationRuns : public test::PairRuns {
 protected:
  void SetUp() override { objective_ = "type: distillation"; }

  // On the golden texts; `objective`: its options behind the teacher.
  std::filesystem::path taught(const std::string& name, const std::string& objective = "", test::Overrides more = {},
                               const std::string& teacher = "", const TrainOptions& options = test::quiet_options()) {
    test::Overrides all{{"data.train", (folder() / "texts.jsonl").string()}, {"trainer.steps", "10"}};
    all.insert(all.end(), more.begin(), more.end());
    const std::string from = teacher.empty() ? (folder() / "teacher").string() : teacher;
    return run(name, all, "teacher: " + from + (objective.empty() ? "" : ", ") + objective, options);
  }
  static std::filesystem::path folder() { return test::golden("train/distillation"); }

  // As the golden teacher, but for so many tokens.
  std::string teacher_for(std::int64_t vocab) {
    const std::filesystem::path made = folder_ / ("teacher" + std::to_string(vocab));
    nlohmann::json config = test::read_json(folder() / "teacher" / "config.json");
    config["vocab_size"] = vocab, config["pad_token_id"] = nullptr;
    Problems problems;
    const auto model = build_model(config::parse_json(config.dump(), "config.json", problems), "config.json");
    init_weights(*model, 3, Precision::fp32);
    hub::save_model_folder(made, *model, hub::model_files(*model, "", nullptr), {});
    return made.string();
  }

  const nlohmann::json golden_ = test::read_json(test::golden("train/distillation/distillation.json"));
};

TEST_F(DistillationRuns, TenStepsEqualTrl) {
  for (const auto& [name, options] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    test::Overrides more;
    for (const auto& [option, value] : options.items()) more.emplace_back("objective." + option, value.dump());
    const auto made = taught(name, "", more);
    expect_history(made, golden_["runs"][name]);
    const double alpha = options.value("alpha", 1.0);
    const std::vector<double> loss = values(made, "loss"), divergence = values(made, "divergence_loss"),
                              nll = values(made, "nll_loss");
    ASSERT_EQ(divergence.size(), loss.size());
    for (std::size_t i = 0; i < loss.size(); ++i)
      EXPECT_NEAR(loss[i], alpha * divergence[i] + (1 - alpha) * nll[i], 1e-5);
  }
}

TEST_F(DistillationRuns, TextsInOneMicroBatchOrEachInItsOwnAreTheSame) {
  const auto split = [&](const char* rows, const char* times) {
    return taught(rows, "alpha: 0.7",
                  {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.precision", "fp64"}});
  };
  const auto eight = split("8", "1"), one = split("1", "8");
  for (const char* name : {"loss", "divergence_loss", "nll_loss", "accuracy", "grad_norm"})
    expect_near(values(eight, name), values(one, name), 1e-10);
}

TEST_F(DistillationRuns, PackingChangesNothing) {
  const auto apart = taught("apart", "", {{"trainer.batch_size", "40"}});
  const auto packed =
      taught("packed", "", {{"trainer.batch_size", "1"}, {"data.packing", "best_fit"}, {"data.max_length", "4096"}});
  expect_near(values(apart, "loss"), values(packed, "loss"), 1e-5);
}

TEST_F(DistillationRuns, HeldOutTextsAreEvaluated) {
  const auto made = taught("still", "alpha: 0.3, temperature: 2",
                           {{"data.eval.all", (folder() / "texts.jsonl").string()},
                            {"optimizer.learning_rate", "0"},
                            {"optimizer.schedule", "{type: constant}"},
                            {"trainer.batch_size", "40"},
                            {"trainer.steps", "1"},
                            {"trainer.eval_every", "1"}});
  for (const char* name : {"loss", "divergence_loss", "nll_loss", "accuracy"})
    EXPECT_NEAR(values(made, name).at(0), values(made, std::string("eval_") + name).at(0), 1e-4) << name;
}

// Below a fresh adapter, of the head, too, the model is as it was; its logits are then made as a whole.
TEST_F(DistillationRuns, AnAdapterIsTaught) {
  const auto plain = taught("plain", "alpha: 0.5");
  const auto lora = taught(
      "lora", "alpha: 0.5",
      {{"adapter", "{type: lora, rank: 4, targets: [q_proj, v_proj, down_proj, lm_head]}"},
       {"optimizer.learning_rate", "3e-2"}});
  EXPECT_NEAR(values(plain, "loss").at(0), values(lora, "loss").at(0), 1e-5);
  EXPECT_LT(values(lora, "divergence_loss").back(), values(plain, "divergence_loss").at(0) - 0.05);
  EXPECT_HONE_ERROR(taught("from", "", {}, lora.string()), checkpoint, "an adapter; expected a whole model");
}

TEST_F(DistillationRuns, ATeacherIsLearntFrom) {
  const auto made = taught("long", "", {{"trainer.steps", "300"}, {"optimizer.learning_rate", "1e-2"}});
  EXPECT_LT(values(made, "divergence_loss").back(), 0.5 * values(made, "divergence_loss").front());
}

// A family's larger models have more rows that no token uses; fewer cannot be.
TEST_F(DistillationRuns, TheTeachersVocabularyMayBeLarger) {
  EXPECT_TRUE(std::isfinite(values(taught("larger", "", {}, teacher_for(264)), "loss").back()));
  EXPECT_HONE_ERROR(taught("smaller", "", {}, teacher_for(258)), config,
                    "has a vocabulary of 258, and the model one of 259");
}

TEST_F(DistillationRuns, ATeacherWithAnotherTokenizerIsRefused) {
  const std::string other = teacher_for(259);
  const auto tokenizer = load_tokenizer("bytes");
  std::string text = tokenizer->files.at(0).second;
  const std::size_t at = text.find("\"a\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 3, "\"qq\"");
  std::ofstream(std::filesystem::path(other) / tokenizer->files.at(0).first) << text;
  EXPECT_HONE_ERROR(taught("other", "", {}, other), config, "has another tokenizer: token 97 is \"qq\" there");
}

TEST_F(DistillationRuns, GoesOnBitForBit) {
  const test::Overrides saves{{"trainer.save.every", "5"}};
  const auto whole = taught("whole", "alpha: 0.5", saves), parts = taught("parts", "alpha: 0.5", saves);
  TrainOptions back = test::quiet_options();
  back.resume = "5";
  taught("parts", "alpha: 0.5", saves, "", back);
  test::expect_equal_runs(whole, parts, 10);
}

// Which steps learn from the model's own answers is drawn; while nothing is learnt each is what all would be.
TEST_F(DistillationRuns, SomeStepsLearnFromOwnAnswers) {
  const test::Overrides still{{"optimizer.learning_rate", "0"}, {"optimizer.schedule", "{type: constant}"}};
  const std::string own = "max_completion_length: 12, ";
  const auto given = values(taught("given", "", still), "loss"),
             drawn = values(taught("drawn", own + "lmbda: 1", still), "loss"),
             both = values(taught("both", own + "lmbda: 0.5", still), "loss");
  std::size_t as_given = 0, as_drawn = 0;
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_NE(given[i], drawn[i]);
    as_given += std::abs(both[i] - given[i]) < 1e-6, as_drawn += std::abs(both[i] - drawn[i]) < 1e-6;
  }
  EXPECT_EQ(as_given + as_drawn, both.size());
  EXPECT_GE(as_given, 2u);
  EXPECT_GE(as_drawn, 2u);
}

// The likeliest tokens are drawn whatever the seed; what was drawn is written down where that is asked for.
TEST_F(DistillationRuns, OwnAnswersAreDrawnAsTheOptionsSay) {
  const auto told = [&](const std::string& name, const std::string& more, const char* seed) {
    const auto run = taught(name, "lmbda: 1, max_completion_length: 8, log_completions: true, " + more,
                            {{"trainer.steps", "1"},
                             {"run.seed", seed},
                             {"data.shuffle", "false"},
                             {"optimizer.schedule", "{type: constant}"}});
    std::istringstream text(test::read_text(run / "completions.jsonl"));
    std::vector<std::string> answers;
    for (std::string line; std::getline(text, line);)
      answers.push_back(nlohmann::json::parse(line).at("completion").get<std::string>());
    return answers;
  };
  const auto likeliest = told("k", "top_k: 1", "1");
  EXPECT_EQ(likeliest.size(), 4u);
  for (const std::string same : {"top_p: 1e-5", "min_p: 1"}) EXPECT_EQ(told(same.substr(0, 3), same, "2"), likeliest);
  EXPECT_NE(told("all", "top_p: 1", "2"), likeliest);
  EXPECT_NE(told("other", "top_k: 1, repetition_penalty: 1000", "1"), likeliest);
  EXPECT_HONE_ERROR(taught("given", "top_p: 0.5"), config, "only with lmbda above 0");
}

TEST_F(DistillationRuns, OwnAnswersAreTheSameHoweverTheyAreSplit) {
  const auto split = [&](const char* rows, const char* times) {
    return taught(rows, "lmbda: 1, max_completion_length: 10",
                  {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.precision", "fp64"},
                   {"trainer.steps", "4"}});
  };
  const auto one = split("1", "8"), again = taught("again", "lmbda: 1, max_completion_length: 10, "
                                                            "generation_batch_size: 3",
                                                   {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"},
                                                    {"trainer.precision", "fp64"}, {"trainer.steps", "4"}});
  EXPECT_EQ(values(one, "loss"), values(again, "loss"));
}

TEST_F(DistillationRuns, OwnAnswersAreTaughtAndGoOnBitForBit) {
  const test::Overrides saves{{"trainer.steps", "60"},
                              {"trainer.save.every", "30"},
                              {"trainer.eval_every", "60"},
                              {"optimizer.learning_rate", "1e-2"},
                              {"data.eval.all", (folder() / "texts.jsonl").string()}};
  const std::string own = "lmbda: 1, max_completion_length: 12";
  const auto whole = taught("whole", own, saves), parts = taught("parts", own, saves);
  TrainOptions back = test::quiet_options();
  back.resume = "30";
  taught("parts", own, saves, "", back);
  test::expect_equal_runs(whole, parts, 60);
  EXPECT_LT(values(whole, "divergence_loss").back(), 0.8 * values(whole, "divergence_loss").front());
  EXPECT_TRUE(std::isfinite(values(whole, "eval_divergence_loss").back()));
}

TEST_F(DistillationRuns, OwnAnswersNeedPrompts) {
  folder_.write("plain.jsonl", "{\"text\": \"one two three\"}\n{\"text\": \"four five six\"}\n");
  const test::Overrides plain{{"data.train", (folder_ / "plain.jsonl").string()}, {"trainer.batch_size", "2"}};
  EXPECT_HONE_ERROR(taught("plain", "lmbda: 1", plain), data,
                    "no prompt, as all of its tokens are learnt");
  EXPECT_HONE_ERROR(taught("packed", "lmbda: 1", {{"data.packing", "best_fit"}}), config, "data.packing");
  EXPECT_HONE_ERROR(taught("labels", "lmbda: 1, alpha: 0.5"), config, "expected 1 with lmbda above 0");
  EXPECT_HONE_ERROR(taught("length", "max_completion_length: 5"), config, "only with lmbda above 0");
}

TEST_F(DistillationRuns, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(run("a", {}, "alpha: 1"), config, "expected the folder of a model to learn from");
  EXPECT_HONE_ERROR(taught("b", "", {}, "/nowhere"), checkpoint, "looking for the teacher");
}

}  // namespace
}  // namespace hone
