// Giving way: when OpenMP's threads are made to sleep, and that it happens where threads share a processor.
#include "tensor/give_way.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hone {
namespace {

TEST(GiveWayPolicy, LeavesThreadsThatDoNotWaitAlone) {
  GiveWayPolicy policy;
  for (int i = 0; i < 100; ++i) {
    policy.update(0.001, 0.025);
    EXPECT_FALSE(policy.sleep());
  }
}

TEST(GiveWayPolicy, LooksRarelyWhileThreadsDoNotWaitAndSoonOnceTheyDo) {
  GiveWayPolicy policy;
  double period = 0;
  for (int i = 0; i < 10; ++i) period = policy.update(0, 0.025);
  EXPECT_GE(period, 0.2);
  EXPECT_LE(period, 0.5);
  EXPECT_LT(policy.update(period, period), 0.1);
  EXPECT_FALSE(policy.sleep());
  policy.update(0.1, 0.1);
  EXPECT_TRUE(policy.sleep());
}

TEST(GiveWayPolicy, LeavesThreadsThatWaitedOnceAlone) {
  GiveWayPolicy policy;
  for (int i = 0; i < 100; ++i) {
    policy.update(i % 2 == 0 ? 0.025 : 0, 0.025);
    EXPECT_FALSE(policy.sleep());
  }
}

TEST(GiveWayPolicy, TriesAgainEverMoreRarelyWhileThreadsWait) {
  GiveWayPolicy policy;
  policy.update(0.025, 0.025);
  double last = 0;
  for (int i = 0; i < 10; ++i) {
    const double pause = policy.update(0.025, 0.025);
    EXPECT_TRUE(policy.sleep());
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, 2);
    last = pause;
    EXPECT_LT(policy.update(0.5, pause), 0.1);  // what they waited meanwhile says nothing
    EXPECT_FALSE(policy.sleep());
  }
  EXPECT_EQ(last, 2);
}

TEST(GiveWayPolicy, ForgetsWhatWasLongAgo) {
  GiveWayPolicy policy;
  policy.update(0.025, 0.025);
  const double first = policy.update(0.025, 0.025);
  for (int i = 0; i < 5; ++i) {
    policy.update(0, 2);
    policy.update(0.025, 0.025);
  }
  policy.update(0, 2);
  for (int i = 0; i < 100; ++i) policy.update(0, 0.025);
  policy.update(0.025, 0.025);
  EXPECT_FALSE(policy.sleep());
  EXPECT_EQ(policy.update(0.025, 0.025), first);
  EXPECT_TRUE(policy.sleep());
}

class GiveWayTo : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})  // of the test's surroundings; libgomp has read them
      if (const char* value = std::getenv(name)) old_.emplace_back(name, value), unsetenv(name);
    threads_ = at::get_num_threads();
    sched_getaffinity(0, sizeof mask_, &mask_);
  }
  void TearDown() override {
    for (const auto& [name, value] : old_) setenv(name.c_str(), value.c_str(), 1);
    sched_setaffinity(0, sizeof mask_, &mask_);
    at::set_num_threads(threads_);
  }
  // Whether OpenMP's threads are made to sleep at any time in the next seconds of many short parallel regions.
  static bool sleeps_within(const GiveWay& give_way, std::chrono::seconds most) {
    const auto end = std::chrono::steady_clock::now() + most;
    while (std::chrono::steady_clock::now() < end) {
      at::parallel_for(0, 2, 1, [](std::int64_t, std::int64_t) {
        std::atomic<int> turns = 0;
        while (turns.fetch_add(1, std::memory_order_relaxed) < 5000) continue;
      });
      if (give_way.sleeping()) return true;
    }
    return false;
  }
  std::vector<std::pair<std::string, std::string>> old_;
  int threads_ = 0;
  cpu_set_t mask_;
};

TEST_F(GiveWayTo, ThreadsThatShareAProcessor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // inherited by a pool that is made from here on
  std::thread([] {
    at::set_num_threads(2);
    const GiveWay give_way;
    EXPECT_TRUE(sleeps_within(give_way, std::chrono::seconds(60)));
    const GiveWay another;
    EXPECT_TRUE(another.sleeping() || sleeps_within(another, std::chrono::seconds(60)));
  }).join();
}

TEST_F(GiveWayTo, NobodyWhereTheUserHasChosenOrThereIsOneThread) {
  at::set_num_threads(1);
  EXPECT_FALSE(GiveWay().sleeping());
  at::set_num_threads(2);
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_FALSE(sleeps_within(GiveWay(), std::chrono::seconds(1)));
  unsetenv("OMP_WAIT_POLICY");
}

}  // namespace
}  // namespace hone
