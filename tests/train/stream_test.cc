// Training on streams: a resumed run is the uninterrupted one bit for bit, the data may end, some things cannot be had.
#include <sys/stat.h>

#include <thread>

#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

class StreamRuns : public ::testing::Test {
 protected:
  Recipe recipe(const std::string& name, const Overrides& more = {}, const std::string& entry = "") {
    const std::string file = (folder_ / "train.jsonl").string();
    if (!std::filesystem::exists(file)) folder_.write("train.jsonl", test::story_lines(60));
    Overrides all{{"data.train", entry.empty() ? "[{path: " + file + ", stream: true}]" : entry},
                  {"data.eval.held_out", "0"},
                  {"data.stream_window", "5"},
                  {"run.folder", (folder_ / name).string()}};
    all.insert(all.end(), more.begin(), more.end());
    return test::small_recipe(folder_, all);
  }
  test::TempFolder folder_;
};

TEST_F(StreamRuns, AResumedRunIsTheUninterruptedOne) {
  train(recipe("whole", {{"trainer.steps", "14"}}), test::quiet_options());
  for (const nlohmann::json& line : test::metrics_of(folder_ / "whole")) EXPECT_FALSE(line.contains("epoch"));
  // The same run, as a kill behind each of its checkpoints leaves it.
  for (const std::int64_t step : {4, 8, 12}) {
    const std::string name = "from " + std::to_string(step);
    std::filesystem::copy(folder_ / "whole", folder_ / name, std::filesystem::copy_options::recursive);
    TrainOptions options = test::quiet_options();
    options.resume = std::to_string(step);
    const Summary summary = train(recipe(name, {{"trainer.steps", "14"}}), options);
    EXPECT_EQ(summary.resumed_from, step);
    test::expect_equal_runs(folder_ / "whole", folder_ / name, 14);
  }
}

TEST_F(StreamRuns, AFileReadAsAStreamGivesTheRunThatItGivesOtherwise) {
  const std::string file = (folder_ / "train.jsonl").string();
  train(recipe("stream", {{"data.stream_window", "1000"}, {"data.shuffle", "false"}}), test::quiet_options());
  train(recipe("file", {{"data.stream_window", "1024"}, {"data.shuffle", "false"}}, file), test::quiet_options());
  EXPECT_EQ(test::read_text(folder_ / "stream" / test::step_folder(10) / "model.safetensors"),
            test::read_text(folder_ / "file" / test::step_folder(10) / "model.safetensors"));
}

TEST_F(StreamRuns, OtherDataAreRefusedUnlessTheyAreWanted) {
  train(recipe("run", {{"trainer.steps", "8"}}), test::quiet_options());
  std::string lines = test::story_lines(60);
  lines.replace(lines.find("1"), 1, "777");
  folder_.write("train.jsonl", lines);
  TrainOptions options = test::quiet_options();
  const auto resume = [&] { train(recipe("run", {{"trainer.steps", "12"}}), options); };
  EXPECT_HONE_ERROR(resume(), data, "--override data reads the new data from their beginning");
  options.override_keys = {"data"};
  resume();
  EXPECT_EQ(test::metrics_of(folder_ / "run").back()["step"], 12);
}

// A job's command may say so each time.
TEST_F(StreamRuns, TheSameDataGoOnAlsoWhereOthersWouldBeWanted) {
  const auto run = [&](const char* name, const char* steps, const TrainOptions& options = test::quiet_options()) {
    train(recipe(name, {{"trainer.steps", steps}, {"optimizer.schedule", "constant"}}), options);
  };
  run("whole", "12");
  run("parts", "8");
  TrainOptions options = test::quiet_options();
  options.override_keys = {"all"};
  run("parts", "12", options);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 12);
}

TEST_F(StreamRuns, APipeThatEndsEndsTheRunInOrder) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string news = folder_.write("news.jsonl", test::story_lines(9)).string();
  std::thread writer([&] { std::ofstream(pipe) << test::story_lines(40); });
  const Overrides more{{"trainer.steps", "1000"}, {"trainer.eval_every", "0"}, {"data.eval.news", news}};
  const Recipe with_pipe = recipe("run", more, "[" + pipe + "]");
  const Summary summary = train(with_pipe, test::quiet_options());
  writer.join();
  EXPECT_EQ(summary.reason, StopReason::end_of_data);
  EXPECT_GT(summary.step, 4);
  EXPECT_LT(summary.step, 40);
  EXPECT_TRUE(summary.metrics.contains("eval_loss"));
  const auto tokens = static_cast<std::int64_t>(test::story_lines(40).size()) - 40 * std::int64_t{13};
  EXPECT_EQ(summary.tokens, tokens + 40);  // every byte of the texts, and an end for each
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / test::step_folder(summary.step)));
  EXPECT_EQ(train(with_pipe, test::quiet_options()).reason, StopReason::already_finished);
  // Asked for more, and there is none: nothing is measured again.
  const std::size_t lines = test::metrics_of(folder_ / "run").size();
  std::thread again([&] { std::ofstream(pipe) << test::story_lines(40); });
  TrainOptions options = test::quiet_options();
  options.resume = "latest";
  EXPECT_EQ(train(with_pipe, options).reason, StopReason::end_of_data);
  again.join();
  EXPECT_EQ(test::metrics_of(folder_ / "run").size(), lines);
}

TEST_F(StreamRuns, WhatCannotBeHadOfAStreamIsRefused) {
  const auto refused = [&](const Overrides& more, const std::string& text) {
    EXPECT_HONE_ERROR(train(recipe("no", more), test::quiet_options()), config, text);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));
  };
  refused({{"trainer.steps", "null"}}, "trainer.steps: missing: data.train is a stream");
  refused({{"trainer.steps", "null"}, {"trainer.epochs", "2"}}, "trainer.epochs: data.train is a stream");
  refused({{"data.eval.held_out", "0.1"}}, "data.eval.held_out: nothing of a stream can be held out");
  refused({{"data.cache", (folder_ / "cache").string()}}, "data.cache: a stream is not kept");
  refused({{"data.eval.more", "[{path: " + (folder_ / "train.jsonl").string() + ", stream: true}]"}},
          "stream: only what is trained on is read so");
}

}  // namespace
}  // namespace hone
