// The trace of chosen steps: whole, nested, of these steps alone, and written whatever happens to the run.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/log.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override { test::register_test_callbacks(); }
  void TearDown() override { log::set_sink({}); }
  void run(const std::string& name, const std::string& callbacks, const test::Overrides& more = {}) {
    test::Overrides overrides{{"run.folder", (folder_ / name).string()}, {"callbacks", callbacks}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    train(test::small_recipe(folder_, overrides), test::quiet_options());
  }
  nlohmann::json trace(const std::string& name, int step) {
    return test::read_json(folder_ / name / "profile" / ("trace-step-" + std::to_string(step) + ".json"));
  }
  static std::vector<nlohmann::json> events(const nlohmann::json& trace, const std::string& ph,
                                            const std::string& cat = "") {
    std::vector<nlohmann::json> all;
    for (const auto& event : trace["traceEvents"])
      if (event["ph"] == ph && (cat.empty() || event["cat"] == cat)) all.push_back(event);
    return all;
  }
  test::TempFolder folder_;
};

double end_of(const nlohmann::json& event) { return event["ts"].get<double>() + event["dur"].get<double>(); }

TEST_F(ProfilerTest, HoldsTheChosenStepsAndWhatLiesInThem) {
  run("trace", "[{type: profiler, start: 4, count: 3}]", {{"trainer.accumulate", "2"}});
  const nlohmann::json made = trace("trace", 4);
  std::map<int, nlohmann::json> steps;
  std::map<std::string, int> phases;
  for (const auto& event : events(made, "X", "phase")) {
    const std::string name = event["name"];
    if (name.starts_with("step ")) steps[event["args"]["step"]] = event;
    phases[name.starts_with("step ") ? "step" : name] += 1;
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
  }
  EXPECT_EQ(phases, (std::map<std::string, int>{{"step", 3}, {"data", 6}, {"forward", 6}, {"backward", 6},
                                                {"ranks", 3}, {"update", 3}, {"log", 3}, {"evaluation", 1},
                                                {"save", 1}}));
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps.begin()->first, 4);
  EXPECT_EQ(steps[4]["name"], "step 4");
  const std::set<std::string> inside{"data", "forward", "backward", "ranks", "update"};
  for (const auto& event : events(made, "X")) {
    const int number = event["args"]["step"];
    ASSERT_TRUE(steps.contains(number)) << event;
    const bool within = event["ts"] >= steps[number]["ts"] && end_of(event) <= end_of(steps[number]) + 1e-3;
    const bool behind = event["ts"] >= end_of(steps[number]) - 1e-3;
    EXPECT_TRUE(within || !inside.contains(event["name"])) << event;
    EXPECT_TRUE(behind || (event["name"] != "evaluation" && event["name"] != "save")) << event;
  }
}

TEST_F(ProfilerTest, HasOpsThreadsAndMemory) {
  run("ops", "[{type: profiler, start: 2, count: 1}]");
  const nlohmann::json made = trace("ops", 2);
  std::set<std::string> ops;
  for (const auto& event : events(made, "X", "op")) ops.insert(event["name"]);
  for (const char* op : {"matrix products", "attention", "loss", "optimizer", "data"})
    EXPECT_TRUE(ops.contains(op)) << op;
  std::set<std::int64_t> named;
  for (const auto& event : events(made, "M"))
    if (event["name"] == "thread_name") named.insert(event["tid"].get<std::int64_t>());
  for (const auto& event : events(made, "X")) EXPECT_TRUE(named.contains(event["tid"].get<std::int64_t>())) << event;
  EXPECT_FALSE(events(made, "C").empty());
  for (const auto& event : events(made, "C")) EXPECT_GT(event["args"]["process"], 1 << 20);
  run("phases", "[{type: profiler, start: 2, count: 1, ops: false}]");
  EXPECT_TRUE(events(trace("phases", 2), "X", "op").empty());
}

// Of stretches on one thread none begins in another and ends behind it: what viewers need to draw them.
TEST_F(ProfilerTest, StretchesLieInEachOtherOrApart) {
  run("nested", "[{type: profiler, start: 3, count: 4}]");
  std::map<std::int64_t, std::vector<double>> open;  // by thread: ends of those that have begun
  for (const auto& event : events(trace("nested", 3), "X")) {
    auto& ends = open[event["tid"].get<std::int64_t>()];
    while (!ends.empty() && ends.back() <= event["ts"].get<double>() + 1e-3) ends.pop_back();
    EXPECT_TRUE(ends.empty() || end_of(event) <= ends.back() + 1e-3) << event;
    ends.push_back(end_of(event));
  }
}

TEST_F(ProfilerTest, ChangesNoNumberAndCountsStepsOfTheRun) {
  run("off", "[]");
  run("on", "[{type: profiler, start: 3}]", {{"trainer.steps", "5"}, {"optimizer.schedule", "constant"}});
  EXPECT_EQ(trace("on", 3)["otherData"]["last_step"], 5);  // the run ended before its third step
  run("on", "[{type: profiler, start: 6, count: 2}]", {{"optimizer.schedule", "constant"}});
  EXPECT_EQ(trace("on", 6)["otherData"]["last_step"], 7);
  run("same", "[{type: profiler, start: 3}]");
  EXPECT_EQ(test::fixed_metrics_of(folder_ / "off"), test::fixed_metrics_of(folder_ / "same"));
}

TEST_F(ProfilerTest, ARunThatFailsLeavesWhatThereIsAndADiskThatFailsNoError) {
  EXPECT_HONE_ERROR(run("nan", "[{type: poison, step: 4}, {type: profiler, start: 3, count: 9}]"), not_finite, "");
  EXPECT_EQ(trace("nan", 3)["otherData"]["last_step"], 5);  // in which it was found
  std::string said;
  log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
  folder_.write("blocked/profile", "a file");
  run("blocked", "[{type: profiler, start: 3, count: 1}]");
  EXPECT_NE(said.find("callback profiler: no trace: "), std::string::npos) << said;
}

}  // namespace
}  // namespace hone
