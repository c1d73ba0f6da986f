// Event files of runs: points, the recipe, what a resume hides, torn ends, a folder that cannot be written.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "base/clock.h"
#include "base/log.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "trackers/event_file.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

struct Begin {
  std::int64_t step = 0;
  bool resumed = true;
  std::string config = "run: {seed: 1}\n";
};

std::unique_ptr<Tracker> tensorboard(const fs::path& folder, Begin begin, const std::string& options = "{}") {
  const auto& trackers = registries().trackers;
  Problems problems;
  const auto chosen = trackers.options("tensorboard");
  chosen->read(config::parse_yaml(options, "test", problems), problems, "");
  problems.raise();
  RunInfo run;
  run.folder = folder.string();
  run.config_yaml = begin.config;
  run.start_step = begin.step;
  run.resumed = begin.resumed;
  return trackers.make("tensorboard", *chosen, run);
}

std::vector<fs::path> event_files(const fs::path& run, const std::string& name = "tensorboard") {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(run / name)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<trackers::Event> events_in(const fs::path& file) {
  std::vector<trackers::Event> events;
  trackers::each_event(test::content_of(file), [&](const auto& event) { events.push_back(event); });
  return events;
}

// What TensorBoard shows of a folder: "step tag value" of each point, and "step config" of recipes, in their order.
std::vector<std::string> shown_of(const fs::path& run) {
  std::vector<std::pair<std::int64_t, std::string>> points;
  bool restarted = false;  // by the first mark nothing is dropped
  for (const fs::path& file : event_files(run))
    for (const trackers::Event& event : events_in(file)) {
      const std::int64_t step = event.place.step;
      if (event.is_start && restarted) std::erase_if(points, [&](const auto& point) { return point.first >= step; });
      restarted = restarted || event.is_start;
      for (const auto& value : event.values)
        points.emplace_back(step, fmt::format("{} {} {}", step, value.tag,
                                              value.number ? fmt::format("{}", *value.number) : value.text));
    }
  std::vector<std::string> shown;
  for (const auto& point : points) shown.push_back(point.second);
  return shown;
}

using Lines = std::vector<std::string>;
const std::string kRecipe = "0 config     run: {seed: 1}\n\n";

TEST(TensorBoard, ARunHasItsNumbersAndItsRecipe) {
  const test::TempFolder folder;
  const double before = wall_seconds();
  {
    const auto tracker = tensorboard(folder.path(), {.resumed = false});
    EXPECT_EQ(shown_of(folder.path()), Lines{kRecipe});  // seen from its beginning
    tracker->log(1, {{"loss", 2.5}, {"step", 1}, {"rewards/accuracies", 0.5}});
    tracker->log(2, {{"loss", 1.5}, {"learning_rate", 1e-3}});
    EXPECT_EQ(shown_of(folder.path()).size(), 5u);  // there when log() returns
    tracker->log(2, {{"eval_loss", 1.25}, {"eval_code_loss", 3}});
    tracker->finish();
  }
  EXPECT_EQ(shown_of(folder.path()),
            (Lines{kRecipe, "1 train/loss 2.5", "1 train/rewards/accuracies 0.5", "2 train/learning_rate 0.001",
                   "2 train/loss 1.5", "2 eval/code_loss 3", "2 eval/loss 1.25"}));
  ASSERT_EQ(event_files(folder.path()).size(), 1u);
  const fs::path file = event_files(folder.path())[0];
  EXPECT_THAT(file.filename().string(), testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..+\\.[0-9]+\\.0"));
  const auto events = events_in(file);
  EXPECT_EQ(events.at(0).version, "brain.Event:2");
  EXPECT_TRUE(events.at(1).is_start);
  for (const auto& event : events) {
    EXPECT_GE(event.place.wall, before);
    EXPECT_LE(event.place.wall, wall_seconds());
  }
}

TEST(TensorBoard, AResumedRunHidesWhatCameAfterItsCheckpoint) {
  const test::TempFolder folder;
  {
    const auto tracker = tensorboard(folder.path(), {.resumed = false});
    for (int step = 1; step <= 4; ++step) tracker->log(step, {{"loss", step}});
  }
  const auto tracker = tensorboard(folder.path(), {.step = 2});
  EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "1 train/loss 1", "2 train/loss 2"}));
  tracker->log(3, {{"loss", 0.5}});
  EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "1 train/loss 1", "2 train/loss 2", "3 train/loss 0.5"}));
  EXPECT_EQ(event_files(folder.path()).size(), 2u);
}

TEST(TensorBoard, ARecipeThatHasChangedIsShownBesideTheOneBefore) {
  const test::TempFolder folder;
  tensorboard(folder.path(), {.resumed = false})->log(2, {{"loss", 1}});
  tensorboard(folder.path(), {.step = 2, .config = "a:\n\n- b\n"})->log(4, {{"loss", 1}});
  const Lines shown{kRecipe, "2 train/loss 1", "2 config     a:\n\n    - b\n\n", "4 train/loss 1"};
  EXPECT_EQ(shown_of(folder.path()), shown);
  tensorboard(folder.path(), {.step = 4, .config = "a:\n\n- b\n"});
  EXPECT_EQ(shown_of(folder.path()), shown);
  tensorboard(folder.path(), {.step = 1});  // a step before the other recipe
  EXPECT_EQ(shown_of(folder.path()), Lines{kRecipe});
}

// The evaluation at the start, of a process that was killed before its first checkpoint.
TEST(TensorBoard, ARunThatBeginsAnewHidesTheOneBefore) {
  const test::TempFolder folder;
  for (int i = 0; i < 2; ++i) {
    const auto tracker = tensorboard(folder.path(), {.resumed = false});
    tracker->log(0, {{"eval_loss", 2.5}});
    if (i == 0) tracker->log(1, {{"loss", 2.5}});
  }
  EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "0 eval/loss 2.5"}));
}

// A run is killed between an evaluation and its checkpoint, and goes on from one of the same step before it.
TEST(TensorBoard, AnEvaluationThatIsMadeAgainHasItsPointsOnce) {
  const test::TempFolder folder;
  const Metrics evaluation{{"eval_loss", 1.25}, {"tokens", 8}};
  {
    const auto tracker = tensorboard(folder.path(), {.resumed = false});
    tracker->log(2, {{"loss", 1.5}, {"tokens", 8}});
    tracker->log(2, evaluation);
  }
  const Lines shown{kRecipe, "2 train/loss 1.5", "2 train/tokens 8", "2 eval/loss 1.25"};
  EXPECT_EQ(shown_of(folder.path()), shown);
  {
    const auto tracker = tensorboard(folder.path(), {.step = 2});
    tracker->log(2, evaluation);
    EXPECT_EQ(shown_of(folder.path()), shown);
  }
  tensorboard(folder.path(), {.resumed = false});  // begins anew: what was there is hidden
  tensorboard(folder.path(), {.step = 2})->log(2, evaluation);
  EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "2 eval/loss 1.25", "2 train/tokens 8"}));
}

TEST(TensorBoard, ATornRecordIsLostAloneAndStays) {
  const test::TempFolder folder;
  {
    const auto tracker = tensorboard(folder.path(), {.resumed = false});
    tracker->log(1, {{"loss", 1}});
    tracker->log(2, {{"loss", 2}});
  }
  const fs::path first = event_files(folder.path())[0];
  fs::resize_file(first, fs::file_size(first) - 3);  // killed while it was written
  const std::string torn = test::content_of(first);
  tensorboard(folder.path(), {.step = 1})->log(2, {{"loss", 3}});
  EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "1 train/loss 1", "2 train/loss 3"}));
  EXPECT_EQ(test::content_of(first), torn);
}

TEST(TensorBoard, WhatIsNotFiniteIsShown) {
  const test::TempFolder folder;
  const double infinite = std::numeric_limits<double>::infinity();
  tensorboard(folder.path(), {.resumed = false})
      ->log(1, {{"a", std::nan("")}, {"b", infinite}, {"c", -infinite}, {"d", 1e300}});
  EXPECT_EQ(shown_of(folder.path()),
            (Lines{kRecipe, "1 train/a nan", "1 train/b inf", "1 train/c -inf", "1 train/d inf"}));
}

TEST(TensorBoard, GoesOnWhenTheDiskHasRoomAgain) {
  const test::TempFolder folder;
  const auto limit_files = [](rlim_t bytes) {  // a write beyond it fails with EFBIG
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  limit_files(20);  // a part of the first record
  const auto tracker = tensorboard(folder.path(), {.resumed = false});
  limit_files(RLIM_INFINITY);
  tracker->log(1, {{"loss", 2.5}});
  const fs::path file = event_files(folder.path()).at(0);
  limit_files(fs::file_size(file) + 70);  // one record, and a part of another one
  tracker->log(2, {{"loss", 1.5}, {"norm", 1}});
  EXPECT_EQ(shown_of(folder.path()).size(), 3u);
  limit_files(RLIM_INFINITY);
  tracker->log(2, {{"loss", 1.5}});
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "1 train/loss 2.5", "2 train/loss 1.5"}));
  EXPECT_EQ(event_files(folder.path()).size(), 1u);
}

TEST(TensorBoard, AFileThatIsRemovedMeanwhileIsBegunAnew) {
  for (const bool whole_folder : {true, false}) {
    const test::TempFolder folder;
    const auto tracker = tensorboard(folder.path(), {.resumed = false});
    tracker->log(1, {{"loss", 1}});
    const std::int64_t before = log::warnings();
    fs::remove_all(whole_folder ? folder / "tensorboard" : event_files(folder.path()).at(0));
    tracker->log(2, {{"loss", 2}});
    tracker->log(3, {{"loss", 3}});
    EXPECT_EQ(log::warnings(), before + 1);
    EXPECT_EQ(shown_of(folder.path()), (Lines{kRecipe, "2 train/loss 2", "3 train/loss 3"}));
  }
}

TEST(TensorBoard, AFolderThatCannotBeWrittenIsAWarning) {
  const test::TempFolder folder;
  const std::int64_t before = log::warnings();
  const auto tracker = tensorboard(folder / "run", {.resumed = false});
  tracker->log(1, {{"loss", 1}});
  EXPECT_GT(log::warnings(), before);
  fs::create_directory(folder / "run");  // it comes back
  tracker->log(2, {{"loss", 2}});
  EXPECT_EQ(shown_of(folder / "run"), (Lines{kRecipe, "2 train/loss 2"}));
}

TEST(TensorBoard, FilesAreInOrderAlsoAfterTheClockWasSetBack) {
  const test::TempFolder folder;
  folder.write("tensorboard/events.out.tfevents.9000000000.zebra.99999.0", "");
  folder.write("tensorboard/notes.txt", "mine");
  for (int i = 1; i <= 2; ++i) tensorboard(folder.path(), {.step = i});
  const std::vector<fs::path> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 4u);
  EXPECT_TRUE(files[1].filename().string().starts_with("events.out.tfevents.9000000001."));
  EXPECT_TRUE(files[2].filename().string().starts_with("events.out.tfevents.9000000002."));
  EXPECT_EQ(events_in(files[1]).at(1).place.step, 2);  // from the step behind the checkpoint on
  EXPECT_EQ(test::content_of(files[3]), "mine");
}

TEST(TensorBoard, TheFolderHasTheNameThatIsChosen) {
  const test::TempFolder folder;
  tensorboard(folder.path(), {}, "{folder: tb}");
  EXPECT_EQ(event_files(folder.path(), "tb").size(), 1u);
  for (const char* name : {"../tb", "/tb", ".tb", "checkpoints", "cache", "''"})
    EXPECT_HONE_ERROR(tensorboard(folder.path(), {}, "{folder: " + std::string(name) + "}"), config,
                      "expected a name, not of the run's own, without a path");
}

}  // namespace
}  // namespace hone
