// Operations that fail, once or from then on: the message names path and cause, and nothing that was committed is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "harness/scale.h"
#include "io/scenarios.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using test::FaultyEnv;
using test::Scenario;
using test::ScenarioFolder;
using Fault = FaultyEnv::Fault;

class Errno : public test::WithScenarios {};

struct Failure {
  Fault fault;
  int error;
  bool harmless;  // the result is as without it
};

const std::vector<Failure> kFailures{{Fault::fail, ENOSPC, false},     {Fault::fail, EDQUOT, false},
                                     {Fault::fail, EIO, false},        {Fault::fail, EROFS, false},
                                     {Fault::fail, EMFILE, false},     {Fault::fail, EACCES, false},
                                     {Fault::fail, ESTALE, false},     {Fault::fail, EINTR, true},
                                     {Fault::short_write, 0, true}};

// One failure of one operation of a scenario, or of all from there on.
void expect_told(const ScenarioFolder& place, const Scenario& scenario, const Failure& failure, int at, bool for_ever) {
  const fs::path path = place.prepare(scenario);
  std::int64_t safe = scenario.before.empty() ? 0 : scenario.before.back();
  bool failed = false;
  FaultyEnv env(failure.fault, at, failure.error, for_ever);
  try {
    scenario.work(env.open_folder(path), [&](std::int64_t step) { safe = step; });
  } catch (const Error& error) {
    failed = true;
    EXPECT_EQ(error.kind(), ErrorKind::checkpoint) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(std::generic_category().message(failure.error)));
    EXPECT_THAT(error.what(), testing::HasSubstr(path.parent_path().string()));
  }
  if (failure.harmless) {
    EXPECT_FALSE(failed);
    EXPECT_EQ(Checkpoints(Env::process().open_folder(path)).newest()->step, scenario.last);
  }
  ScenarioFolder::expect_recovers(scenario, path, safe);
}

TEST_F(Errno, OfAnyOperationIsToldAndLosesNothing) {
  const std::vector<Scenario> all = test::scenarios();
  int cases = 0;
  for (std::size_t which = 0; which < all.size(); ++which) {
    const Scenario& scenario = all[which];
    const int count = ScenarioFolder::operations(scenario, place_.prepare(scenario));
    for (std::size_t kind = 0; kind < kFailures.size(); ++kind)
      for (const bool for_ever : {false, true}) {
        // Beside other tests by turns, so that each operation fails somehow.
        const int stride = test::scaled(7 * test::kSlowness, 1);
        for (int at = 1 + static_cast<int>(which + kind + for_ever) % stride; at <= count; at += stride, ++cases) {
          SCOPED_TRACE(fmt::format("{}, errno {} {} at operation {} of {}", scenario.name, kFailures[kind].error,
                                   for_ever ? "for ever" : "once", at, count));
          expect_told(place_, scenario, kFailures[kind], at, for_ever);
          if (HasFailure()) return;
        }
      }
  }
  std::printf("%d failures of operations\n", cases);
  EXPECT_GE(cases, test::scaled(3000 / test::kSlowness, 20000));
}

// What has too many files open, or too little memory, has not looked: it is no reason to go back to an older one.
TEST_F(Errno, AShortageIsNoDamage) {
  const Scenario scenario{"", {10, 20}, {}, 20};
  const fs::path path = place_.prepare(scenario);
  for (const int error : {EMFILE, ENFILE, ENOMEM, EIO}) {
    int refused = 0;
    for (int at = 1; at < 200; ++at) {
      FaultyEnv env(Fault::fail, at, error);
      try {
        const auto newest = Checkpoints(env.open_folder(path)).newest();
        ASSERT_TRUE(newest && (newest->step == 20 || error == EIO)) << at;
      } catch (const Error& failure) {
        ++refused;
        ASSERT_THAT(failure.what(), testing::HasSubstr(std::generic_category().message(error)));
      }
    }
    EXPECT_GE(refused, 1);
  }
}

}  // namespace
}  // namespace hone::io
