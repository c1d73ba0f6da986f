// metrics.csv: rows, resume, torn ends, a folder that cannot be written.
#include <gtest/gtest.h>

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
