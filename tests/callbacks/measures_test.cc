// Callbacks that measure a run: timers, throughput, memory and learning rates say what is so, and training does not
// notice them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/log.h"
#include "dist/ranks.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class Measures : public ::testing::Test {
 protected:
  void TearDown() override { log::set_sink({}); }
  // The lines of training.
  std::vector<nlohmann::json> run(const std::string& name, const std::string& callbacks,
                                  const test::Overrides& more = {}) {
    test::register_test_callbacks();
    test::Overrides overrides{{"run.folder", (folder_ / name).string()}, {"callbacks", callbacks}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    train(test::small_recipe(folder_, overrides), test::quiet_options());
    std::vector<nlohmann::json> lines;
    for (const auto& line : test::metrics_of(folder_ / name))
      if (line.contains("loss")) lines.push_back(line);
    return lines;
  }
  test::TempFolder folder_;
};

constexpr const char* kMeasures =
    "[timers, {type: throughput, window: 4, peak_tflops: 2}, {type: memory, seconds: 0.01}, learning_rate]";

TEST_F(Measures, ChangeNoNumberOfTheRunAndNoneOfTheCheckpoint) {
  run("off", "[]");
  run("on", "[timers, {type: throughput, peak_tflops: 2}, memory]");
  const std::string step = test::step_folder(10);
  for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors", "trainer_state.json"})
    EXPECT_TRUE(test::read_text(folder_ / "off" / step / file) == test::read_text(folder_ / "on" / step / file))
        << file;
  auto on = test::metrics_of(folder_ / "on");
  const auto off = test::fixed_metrics_of(folder_ / "off");
  ASSERT_EQ(on.size(), off.size());
  for (std::size_t i = 0; i < off.size(); ++i) {
    for (const std::string& name : nondeterministic_metrics()) on[i].erase(name);
    for (const char* name : {"throughput/flops_per_token", "throughput/flops_per_step", "throughput/total_flops"})
      on[i].erase(name);
    EXPECT_EQ(on[i].dump(), off[i]);
  }
}

TEST_F(Measures, PartsOfAStepAreTheStep) {
  const auto lines = run("timers", kMeasures, {{"trainer.log_every", "5"}, {"trainer.save.every", "5"}});
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& line : lines) {
    double sum = 0;
    for (const char* part : {"data", "forward", "backward", "ranks", "update", "other"}) {
      const double seconds = line[std::string("time/") + part];
      EXPECT_GE(seconds, 0) << part;
      sum += seconds;
    }
    for (const char* part : {"forward", "backward", "update"}) EXPECT_GT(line[std::string("time/") + part], 0) << part;
    const double step = line["step_seconds"];
    EXPECT_GT(sum, 0.5 * step);  // step_seconds leaves out what callbacks do at a step's end
    EXPECT_LT(sum, 2 * step + 0.05);
  }
  EXPECT_FALSE(lines[0].contains("time/evaluation"));  // it came behind the line
  EXPECT_GT(lines[1]["time/evaluation"], 0);
  EXPECT_GT(lines[1]["time/save"], 0);
  EXPECT_GT(lines[1]["elapsed_seconds"], lines[0]["elapsed_seconds"]);
}

TEST_F(Measures, EpochsAreTimedAndElapsedTimeGoesOnOverProcesses) {
  const test::Overrides first{{"trainer.steps", "24"}, {"data.packing", "none"}, {"optimizer.schedule", "constant"}};
  const auto lines = run("epochs", kMeasures, first);
  const auto with =
      std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.contains("epoch_seconds"); });
  ASSERT_NE(with, lines.end());
  EXPECT_GE((*with)["epoch"], 1);
  EXPECT_GT((*with)["epoch_seconds"], 0);
  EXPECT_LE((*with)["epoch_seconds"], (*with)["elapsed_seconds"]);
  const double before = test::read_json(folder_ / "epochs" / test::step_folder(24) /
                                        "state/train.json")["callbacks"]["0.timers"]["elapsed"];
  EXPECT_GE(before, lines.back()["elapsed_seconds"].get<double>());
  auto more = first;
  more[0].second = "25";
  const auto again = run("epochs", kMeasures, more);
  EXPECT_GE(again.back()["elapsed_seconds"].get<double>(), before);
  EXPECT_LT(again.back()["elapsed_seconds"].get<double>(), before + 60);
  EXPECT_EQ(again.back()["epoch_seconds"], again[again.size() - 2]["epoch_seconds"]);  // saved with the run
}

TEST_F(Measures, ThroughputFollowsFromTokensTimesAndFlops) {
  const auto lines = run("throughput", kMeasures, {{"data.packing", "none"}});
  double total = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& line = lines[i];
    const double seconds = line["throughput/step_seconds"], flop = line["throughput/flops_per_step"];
    EXPECT_NEAR(line["throughput/tflops"].get<double>(), flop / seconds / 1e12, 1e-9);
    EXPECT_NEAR(line["throughput/mfu"].get<double>(), line["throughput/tflops"].get<double>() / 2, 1e-12);
    EXPECT_NEAR(line["throughput/samples_per_second"].get<double>() * seconds, 4, 1e-6);  // 4 rows of a document each
    const double tokens = line["throughput/tokens_per_second"].get<double>() * seconds;   // of a step
    EXPECT_NEAR(line["throughput/flops_per_token"].get<double>() * tokens, flop, 1e-6 * flop);
    // Of the last four steps alone.
    const std::size_t back = std::min<std::size_t>(4, i + 1);
    const double earlier = i >= back ? lines[i - back]["tokens"].get<double>() : 0;
    EXPECT_NEAR(tokens * static_cast<double>(back), line["tokens"].get<double>() - earlier, 1e-6);
    if (i == 0) total = flop;
    if (i == 0) {
      EXPECT_EQ(line["throughput/total_flops"], total);
    }
  }
  EXPECT_GT(lines.back()["throughput/total_flops"], total);
}

TEST_F(Measures, TotalFlopsAreThoseOfTheUninterruptedRun) {
  const test::Overrides constant{{"optimizer.schedule", "constant"}};
  const auto whole = run("whole", kMeasures, constant);
  run("again", kMeasures, {{"trainer.steps", "6"}, {"optimizer.schedule", "constant"}});
  const auto again = run("again", kMeasures, constant);
  EXPECT_EQ(again.back()["throughput/total_flops"], whole.back()["throughput/total_flops"]);
}

TEST_F(Measures, MemoryIsMeasuredAndNearnessToTheLimitIsSaid) {
  std::string said;
  log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
  const auto lines = run("memory", "[{type: memory, warn_at: 0}]");
  for (const auto& line : lines) {
    EXPECT_GT(line["memory_bytes"], 1 << 20);
    EXPECT_GE(line["highest_memory_bytes"], line["memory_bytes"]);
    // The kernel counts the two apart, each in its own steps.
    EXPECT_LT(line["memory_bytes"].get<double>(), 1.1 * line["peak_memory_bytes"].get<double>());
    EXPECT_GT(line["available_memory_bytes"], 0);
    EXPECT_TRUE(line.contains("tensor_memory_bytes"));
  }
  const auto first = said.find("in use (");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("in use (", first + 1), std::string::npos) << "once: " << said;
  EXPECT_HONE_ERROR(run("none", "[{type: memory, every: 0}]"), config, "every");
}

TEST_F(Measures, LearningRatesOfGroupsAreThoseOfTheirSchedules) {
  const auto lines =
      run("groups", "[learning_rate]",
          {{"optimizer",
            "{type: groups, groups: ["
            "{name: tables, match: embed, optimizer: {type: sgd, learning_rate: 0.1, momentum: 0.8, "
            "weight_decay: 0.02, schedule: constant}}, "
            "{name: rest, optimizer: {type: adamw, learning_rate: 0.01, betas: [0.85, 0.99], weight_decay: 0.3, "
            "schedule: {type: linear, warmup_steps: 2}}}]}"}});
  for (const auto& line : lines) {
    EXPECT_EQ(line["learning_rate_tables"], 0.1);
    EXPECT_EQ(line["momentum_tables"], 0.8);
    EXPECT_EQ(line["weight_decay_tables"], 0.02);
    EXPECT_EQ(line["momentum_rest"], 0.85);
    EXPECT_EQ(line["weight_decay_rest"], 0.3);
  }
  EXPECT_NE(lines[1]["learning_rate_rest"], lines[9]["learning_rate_rest"]);
  const auto plain = run("plain", "[learning_rate]");
  const auto off = run("plain-off", "[]");
  for (std::size_t i = 0; i < off.size(); ++i) {
    EXPECT_EQ(plain[i]["learning_rate"], off[i]["learning_rate"]);
    EXPECT_TRUE(plain[i].contains("momentum") && plain[i].contains("weight_decay"));
  }
}

TEST_F(Measures, OfSeveralStepsALineHasTheLastSettings) {
  const test::Overrides more{{"trainer.log_every", "4"}, {"trainer.eval_every", "5"}};
  const test::Overrides groups{{"optimizer", "{type: groups, groups: [{name: all, match: ., optimizer: {type: adamw, "
                                             "learning_rate: 0.01, schedule: {type: linear, warmup_steps: 2}}}]}"}};
  test::Overrides each = groups, some = groups;
  some.insert(some.end(), more.begin(), more.end());
  const auto single = run("single", "[learning_rate]", each), several = run("several", "[learning_rate]", some);
  ASSERT_EQ(several.size(), 3u);
  EXPECT_EQ(several[0]["learning_rate_all"], single[3]["learning_rate_all"]);
  EXPECT_EQ(several[1]["learning_rate_all"], single[7]["learning_rate_all"]);
}

TEST_F(Measures, ScaledLearningRatesHaveGroupsOfTheirOwn) {
  run("base", "[]");
  const auto lines = run("lora", "[{type: learning_rate, momentum: false, weight_decay: false}]",
                         {{"model", (folder_ / "base").string()},
                          {"adapter", "{type: lora, rank: 2, targets: [q_proj], loraplus_lr_ratio: 16}"}});
  for (const auto& line : lines) {
    EXPECT_DOUBLE_EQ(line["learning_rate_x16"].get<double>(), 16 * line["learning_rate"].get<double>());
    EXPECT_FALSE(line.contains("momentum"));
  }
}

TEST_F(Measures, OnSeveralRanksAmountsAreOfAllOfThem) {
  const auto one =
      run("one", kMeasures, {{"data.packing", "none"}, {"trainer.batch_size", "2"}, {"trainer.accumulate", "2"}});
  test::on_ranks(2, [&](const World& world) {
    TrainOptions options = test::quiet_options();
    options.world = world, options.handle_signals = false;
    train(test::small_recipe(folder_, {{"run.folder", (folder_ / "two").string()},
                                       {"callbacks", kMeasures},
                                       {"data.packing", "none"},
                                       {"trainer.batch_size", "2"},
                                       {"trainer.accumulate", "2"}}),
          options);
  });
  const auto two = test::metrics_of(folder_ / "two");
  EXPECT_EQ(two.back()["step"], 10);
  for (const auto& line : two)
    if (line["step"] == 10 && line.contains("loss")) {
      EXPECT_NEAR(line["throughput/total_flops"].get<double>(), one.back()["throughput/total_flops"].get<double>(), 1);
      EXPECT_NEAR(line["throughput/mfu"].get<double>(), line["throughput/tflops"].get<double>() / 4, 1e-12);
    }
}

}  // namespace
}  // namespace hone
