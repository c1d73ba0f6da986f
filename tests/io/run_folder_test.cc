// One owner per run folder, whatever happens to it; --new; numbering; metrics that survive kills and full disks.
#include "io/run_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/errors.h"
#include "io/faulty_env.h"
#include "io/metrics_file.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::FaultyEnv;
using Fault = FaultyEnv::Fault;
using Say = std::function<void(std::int64_t)>;

class RunFolderTest : public test::WithFastFolder {
 protected:
  test::Quiet quiet_;
  Env& env_ = Env::process();
};

TEST_F(RunFolderTest, IsMadeWithWhatARunNeeds) {
  RunFolder run(env_, folder_ / "runs/a");
  EXPECT_FALSE(run.existed());
  EXPECT_EQ(run.config(), std::nullopt);
  run.write_config("steps: 1\n");
  EXPECT_EQ(run.config(), "steps: 1\n");
  EXPECT_TRUE(fs::is_directory(folder_ / "runs/a/checkpoints"));
  run.link("latest", "step-00000001");
  EXPECT_EQ(fs::read_symlink(folder_ / "runs/a/latest"), "checkpoints/step-00000001");
}

TEST_F(RunFolderTest, ASecondProcessIsToldWhoHoldsIt) {
  const RunFolder run(env_, folder_ / "a");
  const int ended = test::in_child(
      [&](const Say&) {
        try {
          RunFolder second(env_, folder_ / "a");
        } catch (const Error& error) {
          const std::string text = error.what();
          const bool good = error.kind() == ErrorKind::locked &&
                            text.find("pid " + std::to_string(getppid()) + " since 2") != std::string::npos &&
                            text.find("run id " + run.run_id()) != std::string::npos;
          _exit(good ? 42 : 43);
        }
      },
      nullptr);
  EXPECT_EQ(ended, 42);
}

TEST_F(RunFolderTest, TheLockEndsWithItsProcessHoweverThatEnds) {
  for (int i = 0; i < 30; ++i) {
    const int ended = test::in_child(
        [&](const Say&) {
          RunFolder run(env_, folder_ / "a");
          raise(SIGKILL);
        },
        nullptr);
    ASSERT_EQ(ended, -SIGKILL);
    ASSERT_NO_THROW(RunFolder(env_, folder_ / "a"));
  }
}

// What it has written so far is not taken for somebody else's file.
TEST_F(RunFolderTest, OneThatIsJustStartingHoldsIt) {
  for (const char* file : {".lock", "config.yaml", "metrics.jsonl"}) {
    fs::remove_all(folder_ / "a");
    folder_.write("a/.lock", "");
    folder_.write(std::string("a/") + file, "{");
    const int lock = ::open((folder_ / "a/.lock").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(lock, LOCK_EX), 0);
    EXPECT_HONE_ERROR(RunFolder(env_, folder_ / "a"), locked, "locked by another process");
    ::close(lock);
    EXPECT_HONE_ERROR(RunFolder(env_, folder_ / "a"), checkpoint, std::string("a run would overwrite \"") + file);
  }
}

TEST_F(RunFolderTest, OfManyStartingAtOnceOneOwnsIt) {
  constexpr int kProcesses = 8;
  const auto tried = static_cast<std::atomic<int>*>(
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(tried), MAP_FAILED);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::int64_t> owners;
    *tried = 0;
    test::in_child(
        [&](const Say& say) {
          for (int i = 0; i < kProcesses; ++i) {
            if (fork() != 0) continue;
            try {
              RunFolder run(env_, folder_ / "a");
              say(i);
              for (++*tried; *tried < kProcesses;) usleep(1000);  // an owner until all have tried
              _exit(0);
            } catch (const Error& error) {
              if (error.kind() != ErrorKind::locked) say(100 + static_cast<int>(error.kind()));
              ++*tried;
              _exit(0);
            }
          }
          while (wait(nullptr) > 0) {
          }
        },
        &owners);
    EXPECT_EQ(owners.size(), 1u);
  }
  munmap(tried, sizeof *tried);
}

TEST_F(RunFolderTest, NewMovesTheOldRunAside) {
  for (int i = 1; i <= 3; ++i) {
    RunFolder run(env_, folder_ / "a/", {.fresh = true});
    EXPECT_FALSE(run.existed());
    run.write_config("k: " + std::to_string(i));
  }
  EXPECT_EQ(test::content_of(folder_ / "a.old-1/config.yaml"), "k: 1");
  EXPECT_EQ(test::content_of(folder_ / "a.old-2/config.yaml"), "k: 2");
  EXPECT_TRUE(RunFolder(env_, folder_ / "a").existed());
}

TEST_F(RunFolderTest, ANewRunThatDoesNotBeginLeavesTheOldOneWhereItWas) {
  RunFolder(env_, folder_ / "a").write_config("k: 1");
  fs::create_directory_symlink("a", folder_ / "link");
  for (const char* name : {"a", "link", "new"}) {
    RunFolder run(env_, folder_ / name, {.fresh = true});
    run.discard_if_new();
    EXPECT_EQ(test::content_of(folder_ / "a/config.yaml"), "k: 1") << name;
    EXPECT_FALSE(fs::exists(folder_ / "a.old-1")) << name;
  }
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  RunFolder begun(env_, folder_ / "a", {.fresh = true});
  begun.write_config("k: 2");
  begun.discard_if_new();
  EXPECT_EQ(test::content_of(folder_ / "a/config.yaml"), "k: 2");
  EXPECT_EQ(test::content_of(folder_ / "a.old-1/config.yaml"), "k: 1");
}

TEST_F(RunFolderTest, NewDoesNotMoveARunInProgress) {
  RunFolder run(env_, folder_ / "a");
  run.write_config("x");
  const int ended = test::in_child([&](const Say&) { RunFolder(env_, folder_ / "a", {.fresh = true}); }, nullptr);
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(fs::exists(folder_ / "a/config.yaml"));
}

TEST_F(RunFolderTest, LeftOversOfAKilledSaveAreCleaned) {
  { RunFolder run(env_, folder_ / "a"); }
  folder_.write("a/checkpoints/.tmp-step-00000010-x/model.safetensors", "half");
  folder_.write("a/checkpoints/.trash-step-00000005-0/x", "half");
  RunFolder run(env_, folder_ / "a");
  EXPECT_TRUE(run.checkpoints().folder().list().empty());
}

TEST_F(RunFolderTest, AnotherRunIdInRunJsonStopsThisOne) {
  RunFolder run(env_, folder_ / "a");
  EXPECT_NO_THROW(run.check_owner());
  std::ofstream(folder_ / "a/run.json") << R"({"run_id": "other"})";
  EXPECT_HONE_ERROR(run.check_owner(), locked, "another run took over this folder; its run id is other");
}

TEST_F(RunFolderTest, SpaceIsCheckedWithFigures) {
  const RunFolder run(env_, folder_ / "a");
  EXPECT_NO_THROW(run.check_space(1000, 4));
  EXPECT_HONE_ERROR(run.check_space(std::uint64_t{1} << 60, 3), checkpoint,
                    "expected at least 3.5 EB for 3 checkpoints of 1.2 EB");
  EXPECT_HONE_ERROR(run.check_space(std::uint64_t{1} << 63, 4), checkpoint, "checkpoints of");
}

TEST_F(RunFolderTest, NumbersRuns) {
  const fs::path runs = folder_ / "runs";
  EXPECT_EQ(numbered_run(env_, runs, "x", false), runs / "x/run_1");
  EXPECT_HONE_ERROR(numbered_run(env_, runs, "x", true), usage, "there is no run to resume");
  for (const char* name : {"run_2", "run_10", "run_x", "other"}) fs::create_directories(runs / "x" / name);
  EXPECT_EQ(numbered_run(env_, runs, "x", false), runs / "x/run_11");
  EXPECT_EQ(numbered_run(env_, runs, "x", true), runs / "x/run_10");
}

TEST_F(RunFolderTest, ASymlinkAsLockIsRefused) {
  folder_.write("victim", "x");
  fs::create_directory(folder_ / "a");
  fs::create_symlink(folder_ / "victim", folder_ / "a/.lock");
  EXPECT_HONE_ERROR(RunFolder(env_, folder_ / "a"), checkpoint, "a run would overwrite \".lock\"");
  EXPECT_EQ(test::content_of(folder_ / "victim"), "x");
}

// As people make one where a disk is too small.
TEST_F(RunFolderTest, ALinkAsCheckpointsIsRefusedByThatName) {
  fs::create_directories(folder_ / "big");
  folder_.write("run/notes.txt", "mine");
  fs::create_symlink("../big", folder_ / "run/checkpoints");
  EXPECT_HONE_ERROR(RunFolder(env_, folder_ / "run"), checkpoint, "run/checkpoints: a link, expected a folder");
  EXPECT_TRUE(fs::is_empty(folder_ / "big"));
}

TEST_F(RunFolderTest, SymlinksInThePlaceOfItsFilesAreNotWrittenThrough) {
  const fs::path victim = folder_.write("victim", "precious");
  RunFolder(env_, folder_ / "a").write_config("steps: 0\n");
  fs::remove(folder_ / "a/config.yaml");
  for (const char* name : {"config.yaml", "latest", ".new-config.yaml", ".new-latest", ".new-run.json"})
    fs::create_symlink(victim, folder_ / "a" / name);
  RunFolder run(env_, folder_ / "a");
  run.write_config("steps: 1\n");
  run.link("latest", "step-00000001");
  fs::create_symlink(victim, folder_ / "a/metrics.jsonl");
  MetricsFile metrics(run.folder());
  metrics.append({{"step", 1}});
  EXPECT_EQ(test::content_of(victim), "precious");
  EXPECT_EQ(test::content_of(folder_ / "a/config.yaml"), "steps: 1\n");
}

class MetricsOfRun : public RunFolderTest {
 protected:
  std::vector<std::int64_t> steps() {
    std::vector<std::int64_t> all;
    std::ifstream file(folder_ / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) all.push_back(json::parse(line).at("step").get<std::int64_t>());
    return all;
  }
  using Steps = std::vector<std::int64_t>;
};

TEST_F(MetricsOfRun, AppendsOneObjectPerLine) {
  MetricsFile metrics(env_.open_folder(folder_.path()));
  metrics.append({{"step", 1}, {"loss", 2.5}});
  metrics.append({{"step", 2}, {"loss", std::nan("")}, {"x", {{"y", INFINITY}}}});
  EXPECT_EQ(test::content_of(folder_ / "metrics.jsonl"),
            "{\"loss\":2.5,\"step\":1}\n{\"loss\":\"nan\",\"step\":2,\"x\":{\"y\":\"inf\"}}\n");
}

TEST_F(MetricsOfRun, AResumeKeepsTheStepsThatWereTaken) {
  folder_.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2,\"eval\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4,\"lo");
  MetricsFile metrics(env_.open_folder(folder_.path()));
  metrics.keep_up_to(2);
  metrics.append({{"step", 3}});
  EXPECT_EQ(steps(), (Steps{1, 2, 2, 3}));
}

TEST_F(MetricsOfRun, OfTheStepItGoesOnFromAResumeKeepsAsManyLinesAsItKnows) {
  folder_.write("metrics.jsonl", "{\"step\":1}\n{\"step\":1,\"eval\":1}\n{\"step\":2}\n{\"step\":2,\"eval\":1}\n");
  MetricsFile metrics(env_.open_folder(folder_.path()));
  EXPECT_EQ(metrics.keep_up_to(2, 3), 3);
  EXPECT_EQ(steps(), (Steps{1, 1, 2}));
  EXPECT_EQ(metrics.keep_up_to(2, 0), 2) << "those of the steps before stay";
}

TEST_F(MetricsOfRun, ATornLastLineIsDroppedAlsoWithoutAResume) {
  folder_.write("metrics.jsonl", "{\"step\":1}\n{\"step\":2,\"lo");
  MetricsFile metrics(env_.open_folder(folder_.path()));
  metrics.append({{"step", 2}});
  EXPECT_EQ(steps(), (Steps{1, 2}));
}

TEST_F(MetricsOfRun, AFailingDiskIsAWarningAndLeavesNoTornLine) {
  for (const Fault fault : {Fault::fail, Fault::short_write}) {
    for (int at = 1; at < 30; ++at) {
      fs::remove(folder_ / "metrics.jsonl");
      FaultyEnv env(fault, at, ENOSPC);
      std::int64_t failures = 0;
      try {
        MetricsFile metrics(env.open_folder(folder_.path()));
        for (int step = 1; step <= 10; ++step) metrics.append({{"step", step}, {"text", std::string(50, 'x')}});
        failures = metrics.failures();
      } catch (const Error&) {
        continue;  // the folder could not be opened
      }
      const Steps there = steps();
      ASSERT_EQ(static_cast<std::int64_t>(there.size()), 10 - failures) << at;
      ASSERT_LE(failures, 1);
    }
  }
}

TEST_F(MetricsOfRun, AWriteCutByTheDiskAndThenAnErrorIsTakenBack) {
  struct Cut : Env {
    int writes = 0;
    int before(Operation& operation) override {
      if (operation.kind != Operation::Kind::write) return 0;
      ++writes;
      if (writes == 2) operation.data = operation.data.first(5);
      return writes == 3 ? ENOSPC : 0;
    }
  } env;
  MetricsFile metrics(env.open_folder(folder_.path()));
  for (int step = 1; step <= 3; ++step) metrics.append({{"step", step}});
  EXPECT_EQ(steps(), (Steps{1, 3}));
}

// Who needs room on a full disk may take it from this file.
TEST_F(MetricsOfRun, AFileThatIsRemovedMeanwhileIsBegunAnew) {
  struct Full : Env {
    bool full = false;
    int before(Operation& operation) override { return full && operation.kind == Operation::Kind::write ? ENOSPC : 0; }
  } env;
  MetricsFile metrics(env.open_folder(folder_.path()));
  metrics.append({{"step", 1}});
  env.full = true;
  metrics.append({{"step", 2}});
  env.full = false;
  fs::remove(folder_ / "metrics.jsonl");
  metrics.append({{"step", 3}});
  EXPECT_EQ(test::content_of(folder_ / "metrics.jsonl"), "{\"step\":3}\n");
}

TEST_F(MetricsOfRun, AFileThatIsRemovedOrReplacedBetweenTwoLinesIsWrittenUnderItsName) {
  MetricsFile metrics(env_.open_folder(folder_.path()));
  metrics.append({{"step", 1}});
  fs::remove(folder_ / "metrics.jsonl");
  const std::int64_t before = log::warnings();
  metrics.append({{"step", 2}});
  EXPECT_EQ(steps(), Steps{2});
  EXPECT_EQ(log::warnings(), before + 1);
  folder_.write("edited", "{\"step\":1}\n{\"step\":2}\n");
  fs::rename(folder_ / "edited", folder_ / "metrics.jsonl");
  metrics.append({{"step", 3}});
  EXPECT_EQ(steps(), (Steps{1, 2, 3}));
  EXPECT_EQ(metrics.failures(), 0);
}

TEST_F(MetricsOfRun, AFileThatIsReplacedByOneOfItsSizeIsWrittenUnderItsName) {
  MetricsFile metrics(env_.open_folder(folder_.path()));
  metrics.append({{"step", 1}});
  const std::int64_t before = log::warnings();
  folder_.write("edited", "{\"step\":7}\n");
  fs::rename(folder_ / "edited", folder_ / "metrics.jsonl");
  metrics.append({{"step", 8}});
  metrics.append({{"step", 9}});
  EXPECT_EQ(steps(), (Steps{7, 8, 9}));
  EXPECT_EQ(log::warnings(), before);
}

TEST_F(MetricsOfRun, AFileThatIsReplacedAfterAFailedWriteIsNotCut) {
  struct Disk : Env {
    bool full = false;
    int before(Operation& operation) override { return full && operation.kind == Operation::Kind::write ? ENOSPC : 0; }
  } env;
  MetricsFile metrics(env.open_folder(folder_.path()));
  metrics.append({{"step", 1}});
  env.full = true;
  metrics.append({{"step", 2}});
  env.full = false;
  ASSERT_EQ(metrics.failures(), 1);
  folder_.write("edited", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  fs::rename(folder_ / "edited", folder_ / "metrics.jsonl");
  metrics.append({{"step", 4}});
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4}));
}

TEST_F(MetricsOfRun, AKillLeavesOnlyWholeLinesAfterTheRestart) {
  for (int at = 1; at < 25; ++at) {
    fs::remove(folder_ / "metrics.jsonl");
    test::in_child(
        [&](const Say&) {
          FaultyEnv env(Fault::kill, at);
          MetricsFile metrics(env.open_folder(folder_.path()));
          metrics.keep_up_to(0);
          for (int step = 1; step <= 10; ++step) metrics.append({{"step", step}});
        },
        nullptr);
    MetricsFile metrics(env_.open_folder(folder_.path()));
    metrics.keep_up_to(3);
    metrics.append({{"step", 4}});
    const Steps there = steps();
    ASSERT_EQ(there.back(), 4);
    for (std::size_t i = 0; i + 1 < there.size(); ++i) ASSERT_EQ(there[i], static_cast<std::int64_t>(i) + 1);
  }
}

}  // namespace
}  // namespace hone::io
