// Which checkpoint is the newest whole one, and which ones may go.
#include "io/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <random>

#include "harness/errors.h"
#include "io/faulty_env.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

class CheckpointsTest : public test::WithFastFolder {
 protected:
  CheckpointsTest() {
    log::set_sink([this](log::Level, std::string_view text) { said_ += std::string(text) + "\n"; });
  }
  ~CheckpointsTest() override { log::set_sink({}); }
  Folder open() { return Env::process().make_folders(folder_ / "c"); }
  void damage(const std::string& file, std::size_t at) {
    std::string content = test::content_of(folder_ / "c" / file);
    content.at(at) = static_cast<char>(content.at(at) ^ 1);
    std::ofstream(folder_ / "c" / file, std::ios::binary) << content;
  }
  std::string said_;
};

TEST_F(CheckpointsTest, AnEmptyFolderHasNone) { EXPECT_EQ(Checkpoints(open()).newest(), std::nullopt); }

TEST_F(CheckpointsTest, TheStepInTheManifestDecidesNotTheNameOrTheTime) {
  for (const std::int64_t step : {9, 10}) test::save_toy(open(), step);
  fs::rename(folder_ / "c/step-00000010", folder_ / "c/step-0000000a");
  fs::rename(folder_ / "c/step-00000009", folder_ / "c/step-00000999");
  EXPECT_EQ(Checkpoints(open()).newest()->step, 10);
  EXPECT_EQ(Checkpoints(open()).at(9).name, "step-00000999");
}

TEST_F(CheckpointsTest, ADamagedNewestFallsBackAndSaysSo) {
  for (const std::int64_t step : {10, 20}) test::save_toy(open(), step);
  damage("step-00000020/state/optimizer-00000-of-00001.safetensors", 150);
  EXPECT_EQ(Checkpoints(open()).newest()->step, 10);
  EXPECT_THAT(said_,
              testing::ContainsRegex(
                  "step-00000020 is not used: .*optimizer-00000-of-00001.safetensors: corrupt: tensor \"m\" chunk 0.*"
                  "going back to step 10"));
  EXPECT_HONE_ERROR(Checkpoints(open()).newest(true), checkpoint, "damaged checkpoints");
  EXPECT_HONE_ERROR(Checkpoints(open()).at(20), checkpoint, "damaged");
}

TEST_F(CheckpointsTest, OnlyDamagedOnesAreAnErrorNeverAFreshStart) {
  for (const std::int64_t step : {10, 20}) test::save_toy(open(), step);
  damage("step-00000010/config.json", 3);
  fs::remove(folder_ / "c/step-00000020/MANIFEST.json");
  EXPECT_HONE_ERROR(Checkpoints(open()).newest(), checkpoint, "no whole checkpoint among these");
}

TEST_F(CheckpointsTest, AMissingStepIsAnErrorWithTheStepsThereAre) {
  for (const std::int64_t step : {10, 20}) test::save_toy(open(), step);
  EXPECT_HONE_ERROR(Checkpoints(open()).at(15), checkpoint, "no checkpoint of step 15; there are steps 10, 20");
}

TEST_F(CheckpointsTest, NotFiniteWeightsAreNeverChosen) {
  test::save_toy(open(), 10);
  const auto save = Checkpoints(open()).start_save(20, {});
  save->add_file("config.json", "{}");
  Manifest manifest;
  manifest.step = 20;
  manifest.finite = false;
  save->commit(manifest);
  EXPECT_EQ(Checkpoints(open()).newest()->step, 10);
  EXPECT_THAT(said_, testing::HasSubstr("not finite"));
  EXPECT_TRUE(Checkpoints(open()).retain(1).empty());
}

TEST_F(CheckpointsTest, OtherPeoplesFoldersAreLeftAlone) {
  test::save_toy(open(), 10);
  folder_.write("c/notes/todo.txt", "x");
  fs::copy(folder_ / "c/step-00000010", folder_ / "c/backup", fs::copy_options::recursive);
  test::save_toy(open(), 20);
  EXPECT_EQ(Checkpoints(open()).retain(1), (std::vector<std::int64_t>{10}));
  EXPECT_TRUE(fs::exists(folder_ / "c/notes/todo.txt"));
  EXPECT_TRUE(fs::exists(folder_ / "c/backup/MANIFEST.json"));
  EXPECT_EQ(said_, "");
}

TEST_F(CheckpointsTest, RetentionKeepsTheNewestAndThePinned) {
  for (const std::int64_t step : {10, 20, 30, 40}) test::save_toy(open(), step);
  EXPECT_EQ(Checkpoints(open()).retain(2, {10}), (std::vector<std::int64_t>{20}));
  EXPECT_EQ(open().list(), (std::vector<std::string>{"step-00000010", "step-00000030", "step-00000040"}));
  EXPECT_TRUE(Checkpoints(open()).retain(0).empty());
}

TEST_F(CheckpointsTest, BrokenOnesDoNotCountForRetention) {
  for (const std::int64_t step : {10, 20, 30}) test::save_toy(open(), step);
  for (const char* step : {"20", "30"}) fs::remove(folder_ / "c" / (std::string("step-000000") + step) / "config.json");
  EXPECT_TRUE(Checkpoints(open()).retain(1).empty());
  EXPECT_EQ(Checkpoints(open()).newest()->step, 10);
}

// Commits, half saves, damage, pins and clean-ups in any order: the newest whole one and the pinned ones stay.
TEST_F(CheckpointsTest, AnyHistoryKeepsTheNewestWholeOneAndThePinned) {
  const test::Quiet quiet;
  std::mt19937 random(5);
  for (int history = 0; history < 60; ++history) {
    fs::remove_all(folder_ / "c");
    Checkpoints checkpoints(Env::process().make_folders(folder_ / "c"));
    std::set<std::int64_t> whole, pinned;
    for (std::int64_t step = 1; step <= 12; ++step) {
      const std::string name = "c/" + step_name(step);
      switch (random() % 5) {
        case 0:  // a save that is killed
          folder_.write("c/.tmp-" + step_name(step) + "-x/config.json", "{}");
          break;
        case 1:  // one that is damaged afterwards
          test::save_toy(open(), step);
          fs::resize_file(folder_ / name / "config.json", 3);
          break;
        case 2:
          if (!whole.empty()) pinned = {*whole.begin()};
          [[fallthrough]];
        default:
          test::save_toy(open(), step);
          whole.insert(step);
          for (const std::int64_t gone : checkpoints.retain(1 + random() % 3, pinned)) whole.erase(gone);
      }
      if (random() % 3 == 0) checkpoints.clean();
      if (whole.empty()) continue;
      ASSERT_EQ(checkpoints.newest()->step, *whole.rbegin());
      for (const std::int64_t one : pinned) ASSERT_TRUE(checkpoints.at(one).whole());
    }
  }
}

TEST_F(CheckpointsTest, HundredsOfSavesLeakNothing) {
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  // Bytes that malloc has handed out. Not resident pages: those grow as files are mapped and vary with the machine.
  // Zero under the sanitizers, which find leaks themselves.
  const auto memory = [] { return ::mallinfo2().uordblks; };
  const auto save = [&](std::int64_t step) {
    test::save_toy(open(), step);
    Checkpoints(open()).retain(2);
  };
  for (std::int64_t step = 1; step <= 50; ++step) save(step);
  const auto before = descriptors();
  const std::size_t bytes = memory();
  for (std::int64_t step = 51; step <= 300; ++step) save(step);
  EXPECT_EQ(descriptors(), before);
  EXPECT_LE(memory(), bytes + (64u << 10));  // what 250 saves leave; free blocks in thread caches count as used
  EXPECT_EQ(open().list().size(), 2u);
}

TEST(Retention, NeverDeletesTheLastOneOrAPinnedOne) {
  std::mt19937 random(3);
  for (int history = 0; history < 100000; ++history) {
    std::vector<std::int64_t> whole;
    for (std::int64_t step = 1; step <= 12; ++step)
      if (random() % 2 == 0) whole.push_back(step);
    std::shuffle(whole.begin(), whole.end(), random);
    const std::set<std::int64_t> pinned{static_cast<std::int64_t>(random() % 12),
                                        static_cast<std::int64_t>(random() % 12)};
    const std::int64_t keep = static_cast<std::int64_t>(random() % 5);
    const auto deleted = steps_to_delete(whole, keep, pinned);
    std::set<std::int64_t> left(whole.begin(), whole.end());
    for (const std::int64_t step : deleted) {
      ASSERT_FALSE(pinned.contains(step));
      ASSERT_EQ(left.erase(step), 1u);
    }
    if (whole.empty()) continue;
    ASSERT_TRUE(left.contains(*std::max_element(whole.begin(), whole.end())));
    ASSERT_GE(static_cast<std::int64_t>(left.size()),
              std::min<std::int64_t>(keep, static_cast<std::int64_t>(whole.size())));
    ASSERT_LE(static_cast<std::int64_t>(left.size()), keep > 0 ? keep + 2 : 12);
  }
}

}  // namespace
}  // namespace hone::io
