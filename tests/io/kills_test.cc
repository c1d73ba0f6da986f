// Saves that are killed, or that fail, at every single operation: nothing that was committed is lost, and the same
// command goes on without a hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/vfs.h>

#include <cstdio>

#include "harness/errors.h"
#include "harness/scale.h"
#include "io/scenarios.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using test::FaultyEnv;
using test::Scenario;
using test::ScenarioFolder;
using Fault = FaultyEnv::Fault;

class Kills : public test::WithScenarios {};

// At each `stride`-th operation of each scenario; how many points that were. Stops at the first one that loses
// anything.
int kill_everywhere(const ScenarioFolder& place, int size, int stride) {
  int points = 0;
  for (const Scenario& scenario : test::scenarios(size)) {
    const int count = ScenarioFolder::operations(scenario, place.prepare(scenario, size));
    for (int at = 1 + points % stride; at <= count; at += stride, ++points) {
      SCOPED_TRACE(fmt::format("{}, {} shards, killed at operation {} of {}", scenario.name, size, at, count));
      if (!place.survives_kill(scenario, at, size)) return points;
    }
  }
  return points;
}

TEST_F(Kills, AtAnyOperationLoseNothingCommitted) {
  int points = 0;
  for (int size = 2; size <= test::scaled(2, 6) && !HasFailure(); ++size)
    points += kill_everywhere(place_, size, test::scaled(test::kSlowness, 1));
  std::printf("%d kill points in memory\n", points);
  EXPECT_GE(points, test::scaled(1500 / test::kSlowness, 10000));
}

// On a disk, each fsync made for real.
TEST_F(Kills, OnADiskLoseNothingCommitted) {
  struct statfs info{};
  constexpr long kTmpfs = 0x01021994;
  if (::statfs("/var/tmp", &info) != 0 || info.f_type == kTmpfs) GTEST_SKIP() << "/var/tmp is no disk";
  std::string name = "/var/tmp/hone-test-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const int points = kill_everywhere(ScenarioFolder(name), test::scaled(2, 3), test::scaled(60, 2));
  fs::remove_all(name);
  std::printf("%d kill points on a disk\n", points);
  EXPECT_GE(points, test::scaled(25, 1000));
}

// Kills during what the restart does: cleaning, looking for the newest one, the next save.
TEST_F(Kills, OfTheRecoveryTooLoseNothing) {
  const std::vector<Scenario> all = test::scenarios();
  for (const std::size_t which : {4, 9}) {
    const Scenario& scenario = all[which];
    const int count = ScenarioFolder::operations(scenario, place_.prepare(scenario));
    for (int pair = 0; pair < test::scaled(150 / test::kSlowness, 500); ++pair) {
      const int first = 1 + pair * 37 % count, second = 1 + pair * 101 % count, third = 1 + pair * 53 % count;
      SCOPED_TRACE(fmt::format("{}, killed at {}, {} and {}", scenario.name, first, second, third));
      const fs::path path = place_.prepare(scenario);
      std::vector<std::int64_t> said;
      for (const int at : {first, second, third})
        test::in_child(
            [&](const test::Say& say) {
              FaultyEnv env(Fault::kill, at);
              const Folder folder = env.open_folder(path);
              Checkpoints(folder).clean();
              const auto newest = Checkpoints(folder).newest();
              if (!newest || newest->step < scenario.last) scenario.work(folder, say);
            },
            &said);
      const std::int64_t safe = ScenarioFolder::acknowledged(scenario, said);
      ScenarioFolder::expect_recovers(scenario, path, safe);
      if (HasFailure()) return;
    }
  }
}

// --new moves the old run aside, killed anywhere: it is whole under the one name or the other.
TEST_F(Kills, WhileARunIsMovedAsideLoseNothing) {
  const fs::path path = folder_ / "run";
  const auto start = [&](Env& env) { RunFolder(env, path, {.fresh = true}).write_config("steps: 1\n"); };
  const auto prepare = [&] {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry);
    RunFolder run(Env::process(), path);
    run.write_config("steps: 20\n");
    test::save_toy(run.checkpoints().folder(), 10);
  };
  prepare();
  FaultyEnv counting;
  start(counting);
  for (int at = 1; at <= counting.count(); ++at) {
    SCOPED_TRACE(fmt::format("killed at operation {} of {}", at, counting.count()));
    prepare();
    const int ended = test::in_child(
        [&](const test::Say&) {
          FaultyEnv env(Fault::kill, at);
          start(env);
        },
        nullptr);
    ASSERT_EQ(ended, -SIGKILL);
    ASSERT_NO_THROW(start(Env::process()));
    int whole = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (fs::exists(entry.path() / "checkpoints/step-00000010")) {
        const auto newest = Checkpoints(Env::process().open_folder(entry.path() / "checkpoints")).newest();
        whole += newest && newest->step == 10;
      }
    ASSERT_EQ(whole, 1);
  }
}

// An export that takes the place of an older one, killed anywhere: the old one is whole, or both are.
TEST_F(Kills, OfAnExportLoseNothing) {
  const auto exports = [&](Env& env, const std::string& content) {
    FolderCommit commit(env.open_folder(folder_.path()), "model",
                        {.run_id = "0123456789ab", .replace = true, .fence = {}, .keep_replaced = true});
    commit.add_file("config.json", content);
    commit.add_safetensors("model.safetensors", {{"x", "F32", {2}}}, {},
                           [](const TensorSpec& spec) -> std::span<const std::byte> {
                             static std::vector<std::byte> bytes;
                             return bytes = test::toy_bytes(spec, 1);
                           });
    commit.commit({});
  };
  const auto prepare = [&] {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry);
    exports(Env::process(), "old");
  };
  const auto whole = [&](const char* name, const char* content) {
    const fs::path path = folder_ / name;
    return fs::exists(path) && verify(Env::process().open_folder(path), Verify::full).empty() &&
           test::content_of(path / "config.json") == content;
  };
  prepare();
  FaultyEnv counting;
  exports(counting, "new");
  for (int at = 1; at <= counting.count(); ++at) {
    SCOPED_TRACE(fmt::format("killed at operation {} of {}", at, counting.count()));
    prepare();
    test::in_child(
        [&](const test::Say&) {
          FaultyEnv env(Fault::kill, at);
          exports(env, "new");
        },
        nullptr);
    ASSERT_TRUE(whole("model", "old") || whole("model.old-1", "old"));
    ASSERT_TRUE(!fs::exists(folder_ / "model") || whole("model", "old") || whole("model", "new"));
    exports(Env::process(), "new");
    ASSERT_TRUE(whole("model", "new"));
    ASSERT_TRUE(whole("model.old-1", "old"));
  }
}

}  // namespace
}  // namespace hone::io
