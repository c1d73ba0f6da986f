// metrics.csv: rows, resume, torn ends, a folder that cannot be written.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/registry.h"
#include "hone/tracker.h"

namespace hone {
namespace {

std::unique_ptr<Tracker> csv(const std::string& folder, std::int64_t start, bool resumed = true) {
  const auto& trackers = registries().trackers;
  RunInfo run;
  run.folder = folder;
  run.start_step = start;
  run.resumed = resumed;
  return trackers.make("csv", *trackers.options("csv"), run);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Csv, AResumedRunWritesLaterRowsAgain) {
  const test::TempFolder folder;
  {
    const auto tracker = csv(folder.path().string(), 0);
    tracker->log(1, {{"loss", 2.5}, {"step", 1}});
    tracker->log(2, {{"loss", 1.5}});
  }
  EXPECT_EQ(text_of(folder / "metrics.csv"), "step,metric,value\n1,loss,2.5\n2,loss,1.5\n");
  std::ofstream(folder / "metrics.csv", std::ios::app) << "1,lo";  // torn by a crash
  csv(folder.path().string(), 1)->log(2, {{"loss", 1.25}});
  EXPECT_EQ(text_of(folder / "metrics.csv"), "step,metric,value\n1,loss,2.5\n2,loss,1.25\n");
}

// The evaluation at the start, of a process that was killed before its first checkpoint.
TEST(Csv, ARunThatBeginsAnewHasNoRowOfTheOneBefore) {
  const test::TempFolder folder;
  for (int i = 0; i < 2; ++i) csv(folder.path().string(), 0, /*resumed=*/false)->log(0, {{"eval_loss", 2.5}});
  EXPECT_EQ(text_of(folder / "metrics.csv"), "step,metric,value\n0,eval_loss,2.5\n");
}

TEST(Csv, ALineThatWasCutOffIsNoRow) {
  const test::TempFolder folder;
  std::ofstream(folder / "metrics.csv") << "step,metric,value\n1,loss,2.5\n2,loss,1.2";
  csv(folder.path().string(), 2)->finish();
  EXPECT_EQ(text_of(folder / "metrics.csv"), "step,metric,value\n1,loss,2.5\n");
}

// A run is killed between an evaluation and its checkpoint, and goes on from one of the same step before it.
TEST(Csv, AnEvaluationThatIsMadeAgainHasItsRowsOnce) {
  const test::TempFolder folder;
  const Metrics evaluation{{"eval_loss", 1.25}, {"step", 2}, {"tokens", 8}};
  {
    const auto tracker = csv(folder.path().string(), 0);
    tracker->log(2, {{"loss", 1.5}, {"step", 2}, {"tokens", 8}});
    tracker->log(2, evaluation);
  }
  const std::string whole = text_of(folder / "metrics.csv");
  EXPECT_EQ(whole, "step,metric,value\n2,loss,1.5\n2,tokens,8\n2,eval_loss,1.25\n");  // tokens once
  csv(folder.path().string(), 2)->log(2, evaluation);
  EXPECT_EQ(text_of(folder / "metrics.csv"), whole);
  const auto tracker = csv(folder.path().string(), 2);
  tracker->log(3, {{"loss", 1}, {"tokens", 12}});
  EXPECT_EQ(text_of(folder / "metrics.csv"), whole + "3,loss,1\n3,tokens,12\n");
}

TEST(Csv, GoesOnWhenTheDiskHasRoomAgain) {
  const test::TempFolder folder;
  const auto tracker = csv(folder.path().string(), 0);
  const auto limit_files = [](rlim_t bytes) {  // a write beyond it fails with EFBIG
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  tracker->log(1, {{"loss", 2.5}});
  limit_files(text_of(folder / "metrics.csv").size() + 4);  // a part of the row
  tracker->log(2, {{"loss", 1.5}});
  limit_files(RLIM_INFINITY);
  tracker->log(3, {{"loss", 1.25}});
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(text_of(folder / "metrics.csv"), "step,metric,value\n1,loss,2.5\n3,loss,1.25\n");
  std::filesystem::resize_file(folder / "metrics.csv", 0);  // emptied by who needed the room
  csv(folder.path().string(), 3)->log(4, {{"loss", 1}});
  EXPECT_EQ(text_of(folder / "metrics.csv"), "step,metric,value\n4,loss,1\n");
}

TEST(Csv, AFileThatIsRemovedOrReplacedMeanwhileIsNotWrittenBesideItsName) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder / "metrics.csv";
  const auto tracker = csv(folder.path().string(), 0);
  tracker->log(1, {{"loss", 2.5}});
  std::filesystem::remove(file);
  const std::int64_t before = log::warnings();
  tracker->log(2, {{"loss", 1.5}});
  EXPECT_EQ(text_of(file), "step,metric,value\n2,loss,1.5\n");
  EXPECT_EQ(log::warnings(), before + 1);
  // As an editor does.
  std::ofstream(folder / "edited") << "step,metric,value\n1,loss,2.5\n2,loss,1.5\n";
  std::filesystem::rename(folder / "edited", file);
  tracker->log(3, {{"loss", 1.25}});
  EXPECT_EQ(text_of(file), "step,metric,value\n1,loss,2.5\n2,loss,1.5\n3,loss,1.25\n");
  std::ofstream(folder / "edited") << "year,town\n1,a\n";
  std::filesystem::rename(folder / "edited", file);
  tracker->log(4, {{"loss", 1}});
  EXPECT_EQ(text_of(file), "year,town\n1,a\n");
}

TEST(Csv, AFileThatIsReplacedByOneOfItsSizeIsWrittenUnderItsName) {
  const test::TempFolder folder;
  const std::filesystem::path file = folder / "metrics.csv";
  const auto tracker = csv(folder.path().string(), 0);
  tracker->log(1, {{"loss", 2.5}});
  const std::int64_t before = log::warnings();
  std::ofstream(folder / "edited") << "step,metric,value\n1,loss,7.5\n";
  std::filesystem::rename(folder / "edited", file);
  tracker->log(2, {{"loss", 1.5}});
  tracker->log(3, {{"loss", 1.25}});
  EXPECT_EQ(text_of(file), "step,metric,value\n1,loss,7.5\n2,loss,1.5\n3,loss,1.25\n");
  EXPECT_EQ(log::warnings(), before);
  const std::string others = "year,town,people\n" + std::string(text_of(file).size() - 17, 'x');
  std::ofstream(folder / "edited") << others;
  std::filesystem::rename(folder / "edited", file);
  for (const int step : {4, 5}) tracker->log(step, {{"loss", 1}});
  EXPECT_EQ(text_of(file), others);
}

TEST(Csv, AFileOfSomebodyElsesIsNotReplaced) {
  const test::TempFolder folder;
  std::ofstream(folder / "metrics.csv") << "year,town,people\n1,a,2\n";
  EXPECT_HONE_ERROR(csv(folder.path().string(), 5), config, "metrics.csv: not written by this tracker");
  EXPECT_EQ(text_of(folder / "metrics.csv"), "year,town,people\n1,a,2\n");
}

TEST(Csv, AFolderThatCannotBeWrittenIsAWarning) {
  const std::int64_t before = log::warnings();
  csv("/no/such/folder", 0)->log(1, {{"loss", 1}});
  EXPECT_GT(log::warnings(), before);
}

}  // namespace
}  // namespace hone
