// Evaluation sets with their own times and sizes, and trackers with theirs.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "hone/registry.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class EvalSets : public ::testing::Test {
 protected:
  EvalSets() { test::register_test_callbacks(); }
  Summary run(const std::string& name, test::Overrides overrides) {
    folder_.write("other.jsonl", test::story_lines(20));
    overrides.insert(overrides.begin(), {"data.eval.other", (folder_ / "other.jsonl").string()});
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return train(test::small_recipe(folder_, overrides), test::quiet_options());
  }
  std::set<std::int64_t> steps_with(const std::string& name, const std::string& metric) const {
    std::set<std::int64_t> steps;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(metric)) steps.insert(line["step"].get<std::int64_t>());
    return steps;
  }
  using Steps = std::set<std::int64_t>;
  test::TempFolder folder_;
};

TEST_F(EvalSets, EachAtItsOwnSteps) {
  run("run", {{"trainer.eval_every", "4"}, {"trainer.eval_sets", "{other: {every: 3}}"}});
  EXPECT_EQ(steps_with("run", "eval_held_out_loss"), (Steps{4, 8, 10}));
  EXPECT_EQ(steps_with("run", "eval_other_loss"), (Steps{3, 6, 9, 10}));
  run("all", {{"trainer.eval_every", "2"}});
  // What is measured does not depend on what is measured beside it.
  const auto value = [&](const std::string& name, std::int64_t step, const std::string& metric) {
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line["step"] == step && line.contains(metric)) return line[metric].get<double>();
    return std::nan("");
  };
  EXPECT_EQ(value("run", 6, "eval_other_loss"), value("all", 6, "eval_other_loss"));
  EXPECT_EQ(value("run", 8, "eval_held_out_loss"), value("all", 8, "eval_held_out_loss"));
}

TEST_F(EvalSets, AnEvaluationThatWasCutShortIsMadeUpForOfTheSameSets) {
  const test::Overrides overrides{{"trainer.eval_every", "4"}, {"trainer.eval_sets", "{other: {every: 3}}"}};
  run("whole", overrides);
  for (const int step : {3, 4, 9}) {
    test::Overrides stopped = overrides;
    stopped.emplace_back("callbacks", fmt::format("[{{type: raise_at, step: {}}}]", step));
    EXPECT_TRUE(run("parts", stopped).interrupted());
  }
  run("parts", overrides);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
}

TEST_F(EvalSets, AsManyBatchesAsAreAskedFor) {
  const auto tokens = [&](const std::string& name, const std::string& metric) {
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(metric)) return line[metric].get<std::int64_t>();
    return std::int64_t{-1};
  };
  run("whole", {{"trainer.eval_batch_size", "1"}});
  run("one", {{"trainer.eval_batch_size", "1"},
              {"trainer.max_eval_batches", "1"},
              {"trainer.eval_sets", "{other: {max_batches: 3}}"}});
  run("three", {{"trainer.eval_batch_size", "3"}, {"trainer.max_eval_batches", "1"}});
  EXPECT_LT(tokens("one", "eval_held_out_tokens"), tokens("whole", "eval_held_out_tokens"));
  EXPECT_LT(tokens("one", "eval_other_tokens"), tokens("whole", "eval_other_tokens"));
  EXPECT_EQ(tokens("one", "eval_other_tokens"), tokens("three", "eval_other_tokens"));
  EXPECT_LT(tokens("one", "eval_held_out_tokens"), tokens("three", "eval_held_out_tokens"));
}

TEST_F(EvalSets, NamesAreThoseOfSets) {
  EXPECT_HONE_ERROR(run("run", {{"trainer.eval_sets", "{othr: 3}"}}), config, "no such evaluation set");
}

TEST_F(EvalSets, TheBestIsOfStepsThatMeasureIt) {
  run("run", {{"trainer.eval_every", "4"},
              {"trainer.eval_sets", "{other: {every: 3}}"},
              {"trainer.save.best_by", "eval_other_loss"},
              {"trainer.save.after_evaluation", "true"},
              {"callbacks", "[{type: early_stopping, metric: eval_other_loss, patience: 99}]"}});
  for (const std::int64_t step : {3, 4, 6, 8, 9, 10})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / test::step_folder(step))) << step;
  const auto state = test::read_json(folder_ / "run" / test::step_folder(10) / "state/train.json");
  EXPECT_EQ(state["best"]["metric"], "eval_other_loss");
  EXPECT_TRUE((Steps{3, 6, 9, 10}).contains(state["best"]["step"].get<std::int64_t>()));
}

// Lines as a tracker gets them.
std::vector<std::pair<std::int64_t, Metrics>> tracked;

class Recording final : public Tracker {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  Recording(const Config&, const RunInfo&) {}
  void log(std::int64_t step, const Metrics& metrics) override { tracked.emplace_back(step, metrics); }
};

TEST_F(EvalSets, TrackersHaveTheirOwnInterval) {
  static const bool once = (registries().trackers.add<Recording>("recording", "Keeps lines."), true);
  static_cast<void>(once);
  const test::Overrides all{{"trainer.log_every", "1"}, {"trainer.eval_every", "0"}, {"data.eval", "{}"}};
  const auto with = [&](const std::string& name, test::Overrides more) {
    more.insert(more.begin(), all.begin(), all.end());
    more.emplace_back("trackers", "[recording]");
    more.emplace_back("run.folder", (folder_ / name).string());
    return train(test::small_recipe(folder_, more), test::quiet_options());
  };
  tracked.clear();
  with("each", {});
  ASSERT_EQ(tracked.size(), 10u);
  double weight = 0, sum = 0, before = 0;
  for (std::size_t i = 4; i < 8; ++i) {  // steps 5 to 8, by their tokens
    before = tracked[i - 1].second.at("tokens");
    const double tokens = tracked[i].second.at("tokens") - before;
    sum += tracked[i].second.at("loss") * tokens, weight += tokens;
  }
  tracked.clear();
  with("fourth", {{"trainer.report_every", "4"}, {"callbacks", "[{type: raise_at, step: 6}]"}});
  with("fourth", {{"trainer.report_every", "4"}});
  ASSERT_EQ(tracked.size(), 3u);  // 4, 8 and the last one
  EXPECT_EQ(tracked[0].first, 4);
  EXPECT_EQ(tracked[1].first, 8);
  EXPECT_EQ(tracked[2].first, 10);
  EXPECT_NEAR(tracked[1].second.at("loss"), sum / weight, 0.01 * sum / weight);  // by supervised tokens, nearly all
  EXPECT_EQ(test::metrics_of(folder_ / "fourth").size(), 10u);
  const std::vector<std::pair<std::int64_t, Metrics>> parts = tracked;
  tracked.clear();
  with("whole", {{"trainer.report_every", "4"}});
  ASSERT_EQ(tracked.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(parts[i].second.at("loss"), tracked[i].second.at("loss"));
}

// Of timers, throughput and memory as of everything else: never what the last line of the log has said.
TEST_F(EvalSets, TrackersHaveTheTimesOfTheirOwnSteps) {
  static const bool once = (registries().trackers.add<Recording>("recording_times", "Keeps lines."), true);
  static_cast<void>(once);
  tracked.clear();
  train(test::small_recipe(folder_, {{"trainer.steps", "12"},
                                     {"trainer.log_every", "6"},
                                     {"trainer.report_every", "2"},
                                     {"trainer.eval_every", "0"},
                                     {"data.eval", "{}"},
                                     {"callbacks", "[timers, throughput, memory]"},
                                     {"trackers", "[recording_times]"}}),
        test::quiet_options());
  ASSERT_EQ(tracked.size(), 6u);
  std::set<double> elapsed, forward, operations;
  for (const auto& [step, line] : tracked) {
    elapsed.insert(line.at("elapsed_seconds")), forward.insert(line.at("time/forward"));
    operations.insert(line.at("throughput/total_flops"));
    EXPECT_GT(line.at("memory_bytes"), 0) << step;
    EXPECT_LE(line.at("time/forward"), line.at("step_seconds")) << step;  // of the same two steps
  }
  for (const std::set<double>& values : {elapsed, forward, operations}) EXPECT_EQ(values.size(), 6u);
}

}  // namespace
}  // namespace hone
