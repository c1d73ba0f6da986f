// Barriers and watched numbers: nobody goes on early, nobody sleeps for ever.
#include "base/waiting.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <thread>
#include <vector>

#include "base/threads.h"

namespace hone {
namespace {

constexpr int kThreads = 5;  // more than there may be processors

// work(number) on each of kThreads threads.
template <class Work>
void on_threads(Work work) {
  std::vector<Worker> workers;
  for (int i = 0; i < kThreads; ++i) workers.emplace_back("waits", [&work, i] { work(i); });
  for (Worker& worker : workers) worker.join();
}

TEST(Waiting, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRounds = 3000;
  Barrier barrier;
  std::array<std::array<int, 16>, kThreads> round{};
  std::atomic<int> wrong = 0;
  on_threads([&](int me) {
    for (int r = 1; r <= kRounds; ++r) {
      round[me][0] = r;
      barrier.wait(kThreads);
      for (const auto& other : round)
        if (other[0] != r) ++wrong;
      barrier.wait(kThreads);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Waiting, AThreadThatFellAsleepIsWoken) {
  Watched number;
  std::atomic<int> late = 0;
  on_threads([&](int me) {
    if (me > 0) {
      number.wait_until([](std::uint32_t now) { return now == 3; });
      if (number.get() != 3) ++late;
      return;
    }
    for (std::uint32_t next : {1u, 2u, 3u}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      number.set(next);
    }
  });
  EXPECT_EQ(late, 0);
}

// Four spinning or yielding threads would use all the processors for this time.
TEST(Waiting, WhoWaitsLongUsesNoProcessor) {
  Barrier barrier;
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double before = used();
  on_threads([&](int me) {
    if (me == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    barrier.wait(kThreads);
  });
  EXPECT_LT(used() - before, 0.25);
}

// Each wait needs the very processor that the waiting thread has.
TEST(Waiting, ThreadsOfOneProcessorComeThrough) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  Barrier barrier;
  std::atomic<int> rounds = 0;
  on_threads([&](int me) {  // they inherit the mask
    for (int r = 0; r < 2000; ++r) {
      barrier.wait(kThreads);
      if (me == 0) ++rounds;
    }
  });
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_EQ(rounds, 2000);
}

}  // namespace
}  // namespace hone
