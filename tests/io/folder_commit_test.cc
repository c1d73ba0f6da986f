// Saves that are killed or fail at every single operation: the last committed checkpoint survives all of them.
#include "io/folder_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>

#include "harness/errors.h"
#include "io/faulty_env.h"
#include "io/run_folder.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using test::FaultyEnv;
using Fault = FaultyEnv::Fault;
using Say = std::function<void(std::int64_t)>;

// What a run does to its checkpoints; says each step once it is committed.
struct Scenario {
  const char* name;
  std::vector<std::int64_t> before;  // steps saved without a fault
  std::function<void(const Folder&, const Say&)> work;
  std::int64_t last;  // newest step afterwards
};

std::vector<Scenario> scenarios() {
  // Replacing, as training saves: after a kill between commit and the next step it may come to the same step again.
  const auto save = [](std::int64_t step) {
    return [=](const Folder& folder, const Say& say) {
      Checkpoints(folder).clean();
      test::save_toy(folder, step, true);
      say(step);
    };
  };
  return {{"the first save", {}, save(10), 10},
          {"a second save", {10}, save(20), 20},
          {"the same step again", {10, 20}, save(20), 20},
          {"the same only step again", {10}, save(10), 10},
          {"a save with retention",
           {10, 20, 30},
           [](const Folder& folder, const Say& say) {
             Checkpoints(folder).clean();
             test::save_toy(folder, 40, true);
             say(40);
             Checkpoints(folder).retain(1);
           },
           40},
          {"a save and the link",
           {10},
           [](const Folder& folder, const Say& say) {
             Checkpoints(folder).clean();
             test::save_toy(folder, 20, true);
             say(20);
             folder.replace_link("latest", step_name(20));
           },
           20},
          {"three saves",
           {},
           [](const Folder& folder, const Say& say) {
             Checkpoints(folder).clean();
             for (const std::int64_t step : {10, 20, 30}) {
               test::save_toy(folder, step, true);
               say(step);
               Checkpoints(folder).retain(2);
             }
           },
           30}};
}

class FolderCommitFaults : public test::WithFastFolder {
 protected:
  // A fresh checkpoints folder with the scenario's steps in it.
  fs::path prepare(const Scenario& scenario) {
    const fs::path path = folder_ / "checkpoints";
    fs::remove_all(path);
    const Folder folder = Env::process().make_folders(path);
    for (const std::int64_t step : scenario.before) test::save_toy(folder, step);
    return path;
  }
  static int operations(const Scenario& scenario, const fs::path& path) {
    FaultyEnv env;
    scenario.work(env.open_folder(path), [](std::int64_t) {});
    return env.count();
  }
  // Everything a restarted run relies on, whatever happened before.
  static void expect_recovers(const Scenario& scenario, const fs::path& path, std::int64_t acknowledged) {
    const Folder folder = Env::process().open_folder(path);
    const Checkpoints checkpoints(folder);
    checkpoints.clean();
    for (const std::string& name : folder.list())
      EXPECT_FALSE(name.starts_with(".tmp-") || name.starts_with(".trash-")) << name;
    for (const Checkpoint& one : checkpoints.scan(Verify::full))
      EXPECT_TRUE(one.whole()) << one.name << ": " << one.problems[0];
    const auto newest = checkpoints.newest();
    EXPECT_GE(newest ? newest->step : 0, acknowledged);
    scenario.work(folder, [](std::int64_t) {});  // the same command again, without a hand
    EXPECT_EQ(checkpoints.newest()->step, scenario.last);
  }
  static std::int64_t acknowledged(const Scenario& scenario, const std::vector<std::int64_t>& said) {
    std::int64_t newest = scenario.before.empty() ? 0 : scenario.before.back();
    for (const std::int64_t step : said) newest = std::max(newest, step);
    return newest;
  }
};

TEST_F(FolderCommitFaults, AKillAtAnyOperationLosesNothingCommitted) {
  const test::Quiet quiet;
  for (const Scenario& scenario : scenarios()) {
    const int count = operations(scenario, prepare(scenario));
    for (int at = 1; at <= count; ++at) {
      SCOPED_TRACE(fmt::format("{}, killed at operation {} of {}", scenario.name, at, count));
      const fs::path path = prepare(scenario);
      std::vector<std::int64_t> said;
      const int ended = test::in_child(
          [&](const Say& say) {
            FaultyEnv env(Fault::kill, at);
            scenario.work(env.open_folder(path), say);
          },
          &said);
      ASSERT_EQ(ended, -SIGKILL);
      expect_recovers(scenario, path, acknowledged(scenario, said));
      if (HasFailure()) return;
    }
  }
}

TEST_F(FolderCommitFaults, ARecoveryThatIsKilledTooLosesNothing) {
  const test::Quiet quiet;
  const Scenario scenario = scenarios()[4];
  const int count = operations(scenario, prepare(scenario));
  for (int pair = 0; pair < 150; ++pair) {
    const int first = 1 + pair * 37 % count, second = 1 + pair * 101 % count;
    SCOPED_TRACE(fmt::format("killed at {}, then at {}", first, second));
    const fs::path path = prepare(scenario);
    std::vector<std::int64_t> said;
    for (const int at : {first, second})
      test::in_child(
          [&](const Say& say) {
            FaultyEnv env(Fault::kill, at);
            const Folder folder = env.open_folder(path);
            Checkpoints(folder).clean();
            if (Checkpoints(folder).newest()->step < 40) scenario.work(folder, say);
          },
          &said);
    expect_recovers(
        {"", {}, [](const Folder&, const Say&) {}, Checkpoints(Env::process().open_folder(path)).newest()->step}, path,
        acknowledged(scenario, said));
    if (HasFailure()) return;
  }
}

TEST_F(FolderCommitFaults, AnErrorAtAnyOperationIsToldAndLosesNothing) {
  const test::Quiet quiet;
  const std::vector<Scenario> all = scenarios();
  for (const std::size_t which : {1, 3, 4}) {
    const Scenario& scenario = all[which];
    const int count = operations(scenario, prepare(scenario));
    for (const int error : {ENOSPC, EDQUOT, EIO, EROFS, EMFILE, EACCES, ESTALE}) {
      for (int at = 1; at <= count; ++at) {
        const bool for_ever = (at + error) % 2 == 0;
        SCOPED_TRACE(fmt::format("{}, errno {} {} at operation {} of {}", scenario.name, error,
                                 for_ever ? "for ever" : "once", at, count));
        const fs::path path = prepare(scenario);
        std::int64_t said = scenario.before.back();
        FaultyEnv env(Fault::fail, at, error, for_ever);
        try {
          scenario.work(env.open_folder(path), [&](std::int64_t step) { said = step; });
        } catch (const Error& failure) {
          EXPECT_EQ(failure.kind(), ErrorKind::checkpoint);
          EXPECT_THAT(failure.what(), testing::HasSubstr(std::generic_category().message(error)));
          EXPECT_THAT(failure.what(), testing::HasSubstr(path.string()));
        }
        expect_recovers(scenario, path, said);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(FolderCommitFaults, ShortWritesAndEintrGiveTheSameFiles) {
  const Scenario scenario = scenarios()[0];
  const fs::path path = prepare(scenario);
  operations(scenario, path);
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
  const Scenario scenario = scenarios()[1];
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
