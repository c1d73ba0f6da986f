// Batches and documents that grow: what a run is with them, also over a restart and on several ranks.
#include <gtest/gtest.h>

#include "train/step_plan.h"
#include "train/support.h"
#include "train/together.h"

namespace hone {
namespace {

class Warmup : public ::testing::Test {
 protected:
  std::filesystem::path run(const std::string& name, test::Overrides overrides) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    train(test::small_recipe(folder_, overrides), test::quiet_options());
    return folder_ / name;
  }
  // As it was, and gone on with from each of some checkpoints, the later ones gone.
  void expect_resumes(test::Overrides overrides) {
    overrides.emplace_back("trainer.save.every", "1");
    const auto whole = run("whole", overrides);
    for (const int from : {1, 4, 7, 9}) {
      SCOPED_TRACE(from);
      const std::string part = "from " + std::to_string(from);
      std::filesystem::copy(whole, folder_ / part,
                            std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
      for (int step = 10; step > from; --step) std::filesystem::remove_all(folder_ / part / test::step_folder(step));
      run(part, overrides);
      test::expect_equal_runs(whole, folder_ / part, 10);
    }
  }
  std::vector<std::int64_t> numbers(const std::string& name, const std::string& key) {
    std::vector<std::int64_t> found;
    for (const auto& line : test::metrics_of(folder_ / name))
      if (line.contains(key)) found.push_back(line[key].get<std::int64_t>());
    return found;
  }
  test::TempFolder folder_;
};

constexpr const char* kStages = "[{steps: 2, accumulate: 1}, {steps: 4, accumulate: 2, increment: 2}]";

TEST_F(Warmup, TheBatchGrowsInStagesAndWithinThem) {
  run("run", {{"trainer.batch_size", "2"}, {"trainer.accumulate", "6"}, {"trainer.batch_warmup", kStages}});
  EXPECT_EQ(numbers("run", "batch_rows"), (std::vector<std::int64_t>{2, 2, 4, 4, 8, 8, 12, 12, 12, 12}));
}

// No row is left out or trained on twice: the run is the one whose first steps were to be so from the start.
TEST_F(Warmup, ABatchThatIsOverriddenGoesOnBehindTheRowsSoFar) {
  const test::Overrides all{{"data.packing", "none"}, {"trainer.save.every", "1"}, {"trainer.eval_every", "0"}};
  const auto with = [&](test::Overrides more) {
    more.insert(more.begin(), all.begin(), all.end());
    return more;
  };
  run("planned", with({{"trainer.batch_size", "2"}, {"trainer.batch_warmup", "[{steps: 4, batch_size: 6}]"}}));
  run("changed", with({{"trainer.batch_size", "6"}}));
  for (int step = 10; step > 4; --step) std::filesystem::remove_all(folder_ / "changed" / test::step_folder(step));
  const auto go_on = [&](const test::Overrides& overrides) {
    test::Overrides named = with(overrides);
    named.emplace_back("run.folder", (folder_ / "changed").string());
    TrainOptions options = test::quiet_options();
    options.override_keys = {"trainer.batch_size"};
    std::string said;
    log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
    train(test::small_recipe(folder_, named), options);
    log::set_sink({});
    return said;
  };
  const std::string first = go_on({{"trainer.batch_size", "2"}});
  EXPECT_NE(first.find("the data go on behind the 24 rows that were trained on, at row 25 of the "), std::string::npos)
      << first;
  const auto weights = [&](const char* name) {
    return test::read_text(folder_ / name / test::step_folder(10) / "model.safetensors");
  };
  EXPECT_TRUE(weights("planned") == weights("changed"));
  for (int step = 10; step > 7; --step) std::filesystem::remove_all(folder_ / "changed" / test::step_folder(step));
  EXPECT_EQ(go_on({{"trainer.batch_size", "2"}}).find("other batches"), std::string::npos);
  EXPECT_TRUE(weights("planned") == weights("changed"));
  const nlohmann::json state = test::read_json(folder_ / "changed" / test::step_folder(10) / "state/train.json");
  EXPECT_EQ(state["rows"], 4 * 6 + 6 * 2);
}

TEST_F(Warmup, OneThatNeverEndsIsRefusedHoweverTheRunsLengthIsSaid) {
  for (const auto& [target, amount] :
       {std::pair("trainer.steps", "10"), {"trainer.epochs", "0.1"}, {"trainer.tokens", "300"}})
    for (const auto& [option, value] : {std::pair("data.length_warmup", "{steps: 500, from: 8, multiple: 4}"),
                                        {"trainer.batch_warmup", "[{steps: 500, batch_size: 1}]"}}) {
      test::Overrides how{{"trainer.steps", "null"}, {target, amount}, {option, value}};
      SCOPED_TRACE(std::string(target) + ' ' + option);
      EXPECT_HONE_ERROR(train(test::small_recipe(folder_, how), test::quiet_options()), config, "no step would have");
    }
}

// What the steps before had is counted as what it was.
TEST_F(Warmup, EpochsAndTokensAreOfAllTheRunsBatches) {
  for (const auto& [target, amount] : {std::pair("trainer.epochs", "2"), {"trainer.tokens", "4000"}}) {
    SCOPED_TRACE(target);
    const auto go = [&](const std::string& rows, std::vector<std::string> keys) {
      TrainOptions options = test::quiet_options();
      options.override_keys = std::move(keys);
      const Recipe recipe = test::small_recipe(folder_, {{"trainer.steps", "null"},
                                                         {target, amount},
                                                         {"trainer.batch_size", rows},
                                                         {"data.packing", "none"},
                                                         {"trainer.save.every", "1"},
                                                         {"run.folder", (folder_ / target).string()}});
      return train(recipe, options).step;
    };
    const auto rows = [&](std::int64_t step) {
      return test::read_json(folder_ / target / test::step_folder(static_cast<int>(step)) / "state/train.json")["rows"]
          .get<std::int64_t>();
    };
    const std::int64_t planned = go("6", {});
    for (std::int64_t step = planned; step > 3; --step)
      std::filesystem::remove_all(folder_ / target / test::step_folder(static_cast<int>(step)));
    const std::int64_t now = go("2", {"trainer.batch_size"});
    EXPECT_EQ(rows(3), 18);
    EXPECT_EQ(now, 3 + 3 * (planned - 3));
    EXPECT_EQ(rows(now), 6 * planned);
  }
}

TEST_F(Warmup, GrowthIsMegatronsRampUp) {
  TrainerSection trainer;
  trainer.batch_size = 1, trainer.accumulate = 16;
  trainer.batch_warmup = {{.steps = 30, .accumulate = 4, .increment = 4}};
  const data::StepSizes sizes = training::step_sizes(trainer);
  for (std::int64_t step = 0; step < 40; ++step)
    EXPECT_EQ(sizes.at(step).accumulate, step < 30 ? 4 + step * 3 / 30 * 4 : 16) << step;
  trainer.batch_warmup = {{.steps = 7, .accumulate = 1, .increment = 5}};  // 3 growths in 7 steps: after 2 1/3 each
  const data::StepSizes uneven = training::step_sizes(trainer);
  for (std::int64_t step = 0; step < 9; ++step)
    EXPECT_EQ(uneven.at(step).accumulate, std::min<std::int64_t>(16, 1 + step * 3 / 7 * 5)) << step;
}

TEST_F(Warmup, AResumedRunIsTheUninterruptedOne) {
  expect_resumes({{"trainer.batch_size", "2"},
                  {"trainer.accumulate", "6"},
                  {"trainer.batch_warmup", kStages},
                  {"data.length_warmup", "{steps: 7, from: 8, multiple: 4}"}});
}

TEST_F(Warmup, EpochsAndTokensAreTargetsWithIt) {
  const test::Overrides warm{{"trainer.steps", "null"},   {"trainer.batch_size", "2"},
                             {"trainer.accumulate", "4"}, {"trainer.batch_warmup", "[{steps: 3, accumulate: 1}]"},
                             {"data.packing", "none"},    {"data.eval.held_out", "0"}};
  test::Overrides epochs = warm, tokens = warm;
  epochs.emplace_back("trainer.epochs", "2");
  run("epochs", epochs);
  const auto lines = test::metrics_of(folder_ / "epochs");
  EXPECT_GE(lines.back()["epoch"].get<double>(), 2);
  EXPECT_LT(lines[lines.size() - 2]["epoch"].get<double>(), 2);
  tokens.emplace_back("trainer.tokens", "1500");
  run("tokens", tokens);
  EXPECT_NEAR(test::metrics_of(folder_ / "tokens").back()["tokens"].get<double>(), 1500, 400);
}

TEST_F(Warmup, DocumentsGrowAndEvaluationsSeeThemWhole) {
  const test::Overrides none{{"data.packing", "none"}, {"trainer.steps", "5"}, {"optimizer.learning_rate", "0"}};
  test::Overrides warm = none;
  warm.emplace_back("data.length_warmup", "{steps: 4, from: 8, multiple: 8}");
  run("whole", none);
  run("warm", warm);
  EXPECT_EQ(numbers("warm", "document_length"), (std::vector<std::int64_t>{8, 16, 32, 48, 64}));
  test::Overrides late = none;
  late.emplace_back("data.length_warmup", "{steps: 4, from: 8, multiple: 8, power: 2}");
  run("late", late);
  EXPECT_EQ(numbers("late", "document_length"), (std::vector<std::int64_t>{8, 8, 16, 32, 64}));
  std::vector<double> losses, evaluations;
  for (const char* name : {"whole", "warm"})
    for (const auto& line : test::metrics_of(folder_ / name)) {
      if (line.contains("loss")) losses.push_back(line["loss"]);
      if (line.contains("eval_loss")) evaluations.push_back(line["eval_loss"]);
    }
  ASSERT_EQ(losses.size(), 10u);
  EXPECT_NE(losses[0], losses[5]);  // what is cut sees less of its document
  EXPECT_EQ(losses[4], losses[9]);  // and no more once it is whole: the same rows as ever
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_EQ(evaluations[0], evaluations[1]);
}

TEST_F(Warmup, WhatCannotBeIsRefused) {
  const auto refused = [&](const char* option, const char* value, const char* fact) {
    SCOPED_TRACE(value);
    EXPECT_HONE_ERROR(test::small_recipe(folder_, {{"trainer.accumulate", "4"}, {option, value}}), config, fact);
  };
  refused("trainer.batch_warmup", "[{accumulate: 1}]", "trainer.batch_warmup.0.steps: missing");
  refused("trainer.batch_warmup", "[{steps: 2}]", "trainer.batch_warmup.0.accumulate: missing");
  refused("trainer.batch_warmup", "[{steps: 10, accumulate: 1}]", "its stages have 10 steps, and the run 10");
  refused("trainer.batch_warmup", "[{steps: 4, accumulate: 1, increment: 2}]", "never come to 4");
  refused("trainer.batch_warmup", "[{steps: 2, accumulate: 1, increment: 1}]", "grow 3 times in 2 steps");
  refused("trainer.batch_warmup", "[{steps: 2, accumulate: 8, increment: 1}]", "never come to 4");
  refused("data.length_warmup", "{from: 8}", "data.length_warmup.steps: missing");
  refused("data.length_warmup", "{steps: 4, from: 64}", "expected less than data.max_length 64");
  refused("data.length_warmup", "{steps: 10, from: 8}", "got 10 of 10 steps");
}

class WarmupTogether : public test::Together {};

TEST_F(WarmupTogether, RanksShareEachStagesBatch) {
  const test::Overrides warm{{"trainer.accumulate", "4"},
                             {"trainer.batch_warmup", "[{steps: 3, accumulate: 2}]"},
                             {"data.length_warmup", "{steps: 4, from: 8}"}};
  run(1, "one", warm);
  run(2, "two", warm);
  expect_close(in("one"), in("two"), 1e-9);
  EXPECT_HONE_ERROR(run(2, "odd", {{"trainer.batch_warmup", "[{steps: 3, accumulate: 1}]"}}), config,
                    "a step's 1 micro-batch until step 3 cannot be shared evenly among 2 ranks");
}

}  // namespace
}  // namespace hone
