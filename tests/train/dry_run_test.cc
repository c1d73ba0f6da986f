// A dry run makes the run's next step and an evaluation, and leaves nothing.
#include "train/dry_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/run_folder.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone::training {
namespace {

namespace fs = std::filesystem;

class DryRuns : public ::testing::Test {
 protected:
  DryRuns() { test::register_test_callbacks(); }
  Recipe recipe(test::Overrides overrides = {}, const std::string& name = "run") {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return test::small_recipe(folder_, overrides);
  }
  DryRun dry(const test::Overrides& overrides = {}) { return dry_run(recipe(overrides), options_); }
  // Every file with its content, and when it was changed.
  std::map<std::string, std::string> everything() {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().filename() == "recipe.yaml") continue;  // that the test itself writes
      const auto time = fs::last_write_time(entry.path()).time_since_epoch().count();
      const std::string content = entry.is_regular_file() ? test::read_text(entry.path()) : "";
      found[entry.path().string()] = fmt::format("{} {}", entry.path() == folder_.path() ? 0 : time, content);
    }
    return found;
  }
  std::vector<nlohmann::json> lines(const std::string& name) { return test::metrics_of(folder_ / name); }
  test::TempFolder folder_;
  TrainOptions options_ = test::quiet_options();
};

void expect_line(const Metrics& found, const nlohmann::json& line, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_EQ(found.at(key), line.at(key).get<double>()) << key;
}

TEST_F(DryRuns, MakeTheFirstStepOfARun) {
  const auto before = (recipe(), everything());
  const DryRun first = dry();
  EXPECT_EQ(everything(), before);
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  EXPECT_TRUE(first.made);
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.steps, 10);
  train(recipe({{"trainer.steps", "1"}, {"optimizer.schedule", "constant"}}, "one"), options_);
  const DryRun constant = dry({{"optimizer.schedule", "constant"}});
  expect_line(constant.metrics, lines("one")[0], {"loss", "grad_norm", "learning_rate"});
  expect_line(constant.evaluation, lines("one")[1], {"eval_loss", "eval_accuracy"});
}

TEST_F(DryRuns, MakeTheNextStepOfARunThatExists) {
  train(recipe({}, "whole"), options_);
  train(recipe({{"callbacks", "[{type: raise_at, step: 6}]"}}), options_);
  const auto before = everything();
  const DryRun next = dry();
  EXPECT_EQ(everything(), before);
  EXPECT_EQ(next.from, "step-00000006");
  EXPECT_EQ(next.step, 7);
  const auto whole = lines("whole");
  const auto line = std::find_if(whole.begin(), whole.end(), [](const auto& one) { return one["step"] == 7; });
  expect_line(next.metrics, *line, {"loss", "grad_norm", "learning_rate"});
  options_.resume = "4";
  EXPECT_EQ(dry().step, 5);
  EXPECT_EQ(everything(), before);
  options_.resume.reset();
  options_.fresh = true;
  EXPECT_EQ(dry().step, 1);
  EXPECT_EQ(everything(), before);
  train(recipe(), test::quiet_options());  // which goes on as if nothing had been
  test::expect_equal_runs(folder_ / "whole", folder_ / "run", 10);
}

TEST_F(DryRuns, DoNotDisturbARunUnderWay) {
  train(recipe({{"callbacks", "[{type: raise_at, step: 3}]"}}), options_);
  const io::RunFolder held(Env::process(), folder_ / "run");
  EXPECT_EQ(dry().step, 4);
}

TEST_F(DryRuns, AFinishedRunHasNoNextStep) {
  train(recipe(), options_);
  const DryRun end = dry();
  EXPECT_FALSE(end.made);
  EXPECT_EQ(end.step, 10);
  EXPECT_TRUE(end.metrics.empty());
  EXPECT_EQ(end.evaluation.at("eval_loss"), lines("run").back()["eval_loss"].get<double>());
  EXPECT_EQ(dry({{"trainer.steps", "11"}}).step, 11);
}

TEST_F(DryRuns, FailAsTheRunWould) {
  EXPECT_HONE_ERROR(dry({{"trainer.batch_size", "4096"}}), data, "expected at least one batch");
  train(recipe({{"callbacks", "[{type: raise_at, step: 3}]"}}), options_);
  EXPECT_HONE_ERROR(dry({{"data.max_length", "32"}}), config, "the recipe is not the one this run was made with");
  options_.resume = "7";
  EXPECT_HONE_ERROR(dry(), checkpoint, "7");
}

// Of a stream that can be read again, records are read and none is taken.
TEST_F(DryRuns, TakeNothingOfAStream) {
  recipe();  // writes the data
  const test::Overrides stream{
      {"data.train", fmt::format("[{{path: {}, stream: true}}]", (folder_ / "train.jsonl").string())},
      {"data.eval", "{}"},
      {"trainer.eval_every", "0"}};
  const DryRun first = dry(stream);
  EXPECT_TRUE(first.made);
  EXPECT_TRUE(first.evaluation.empty());
  train(recipe(stream), options_);
  expect_line(first.metrics, lines("run")[0], {"loss", "grad_norm"});
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  test::Overrides once = stream;
  once[0].second = fmt::format("[{{path: {}, stream: true}}]", pipe);
  EXPECT_HONE_ERROR(dry_run(recipe(once, "once"), options_), usage, "can be read once");
}

}  // namespace
}  // namespace hone::training
