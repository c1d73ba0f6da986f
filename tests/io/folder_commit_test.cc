// Saves that fail: what is written, what is said, and what is left.
#include "io/folder_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>

#include "harness/errors.h"
#include "io/scenarios.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using test::FaultyEnv;
using Fault = FaultyEnv::Fault;

class FolderCommitFaults : public test::WithFastFolder {
 protected:
  fs::path prepare(const test::Scenario& scenario) { return place_.prepare(scenario); }
  test::ScenarioFolder place_{folder_.path()};
};

TEST_F(FolderCommitFaults, ShortWritesAndEintrGiveTheSameFiles) {
  const test::Scenario scenario = test::scenarios()[0];
  const fs::path path = prepare(scenario);
  test::ScenarioFolder::operations(scenario, path);
  const std::string good = test::content_of(path / "step-00000010/MANIFEST.json");
  for (const auto& [fault, error, for_ever] : {std::tuple{Fault::short_write, 0, true}, {Fault::fail, EINTR, false}}) {
    for (int at = 1; at < 40; ++at) {
      prepare(scenario);
      FaultyEnv env(fault, at, error, for_ever);
      scenario.work(env.open_folder(path), [](std::int64_t) {});
      ASSERT_EQ(test::content_of(path / "step-00000010/MANIFEST.json"), good) << at;
      ASSERT_TRUE(verify(Env::process().open_folder(path / "step-00000010"), Verify::full).empty());
    }
  }
}

TEST_F(FolderCommitFaults, AFailedSaveGivesItsSpaceBack) {
  const test::Quiet quiet;
  const test::Scenario scenario = test::scenarios()[1];
  const fs::path path = prepare(scenario);
  FaultyEnv env(Fault::fail, 25, ENOSPC);
  EXPECT_HONE_ERROR(test::save_toy(env.open_folder(path), 20), checkpoint, "No space left on device");
  EXPECT_EQ(env.open_folder(path).list(), (std::vector<std::string>{"step-00000010"}));
}

TEST_F(FolderCommitFaults, AFullDiskIsToldWithFileAndCause) {
  const fs::path mount = folder_ / "disk";
  fs::create_directory(mount);
  if (::mount("tmpfs", mount.c_str(), "tmpfs", 0, "size=256k") != 0) GTEST_SKIP() << "needs the right to mount a tmpfs";
  {
    const test::Quiet quiet;
    const Folder folder = Env::process().make_folders(mount / "checkpoints");
    test::save_toy(folder, 10);
    const auto save = Checkpoints(folder).start_save(20, {});
    const std::vector<std::byte> big(1 << 20);
    EXPECT_HONE_ERROR(save->add_safetensors("model.safetensors", {{"x", "U8", {1 << 20}}}, {},
                                            [&](const TensorSpec&) { return std::span(big); }),
                      checkpoint, "model.safetensors: cannot write: No space left on device");
    EXPECT_EQ(Checkpoints(folder).newest()->step, 10);
  }
  ::umount2(mount.c_str(), MNT_DETACH);
}

TEST_F(FolderCommitFaults, SymlinksPlantedInTheWayAreNotFollowed) {
  const Folder folder = Env::process().make_folders(folder_ / "checkpoints");
  const fs::path victim = folder_.write("victim/file", "precious");
  fs::create_directory_symlink(folder_ / "victim", folder_ / "checkpoints/.tmp-step-00000010-test");
  test::save_toy(folder, 10);  // the link itself is removed
  EXPECT_EQ(test::content_of(victim), "precious");
  fs::create_directory_symlink(folder_ / "victim", folder_ / "checkpoints/step-00000020");
  EXPECT_HONE_ERROR(test::save_toy(folder, 20), checkpoint, "File exists");
  EXPECT_EQ(test::content_of(victim), "precious");
}

TEST_F(FolderCommitFaults, AnExistingStepIsReplacedOnlyWhenAsked) {
  const Folder folder = Env::process().make_folders(folder_ / "checkpoints");
  test::save_toy(folder, 10);
  EXPECT_HONE_ERROR(test::save_toy(folder, 10), checkpoint, "File exists");
  test::save_toy(folder, 10, true);
  EXPECT_EQ(folder.list(), (std::vector<std::string>{"step-00000010"}));
  EXPECT_HONE_ERROR(commit_to(folder_ / "checkpoints/step-00000010/", false), checkpoint, "is there already");
}

TEST_F(FolderCommitFaults, TheFenceStopsACommit) {
  const Folder folder = Env::process().make_folders(folder_ / "checkpoints");
  FolderCommit save(folder, "step-00000010",
                    {.run_id = "a", .replace = false, .fence = [] { throw Error(ErrorKind::locked, "taken over"); }});
  EXPECT_HONE_ERROR(save.commit({}), locked, "taken over");
  EXPECT_FALSE(folder.exists("step-00000010"));
}

}  // namespace
}  // namespace hone::io
