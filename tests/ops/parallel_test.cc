// Shared work: every unit once, and the time in which threads wait for the last one.
#include "ops/parallel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "ops/check.h"

namespace hone::ops::test {
namespace {

TEST(Parallel, DoesEachUnitOnce) {
  for (const int threads : {1, 3})
    for (const std::int64_t units : {0, 1, 2, 100}) {
      const Threads scope(threads);
      std::vector<std::atomic<int>> done(units);
      share_out(units, [&](std::int64_t unit) { ++done[unit]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
}

TEST(Parallel, TellsHowLongThreadsWaited) {
  const auto waited = [](std::int64_t units) {
    const Threads scope(2);
    sections::start();
    share_out(units, [](std::int64_t unit) {
      if (unit == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    const sections::Totals totals = sections::stop();
    return std::accumulate(totals.waited.begin(), totals.waited.end(), 0.0);
  };
  for (const std::int64_t units : {1, 2}) {  // one thread of two has nothing to do, or nearly nothing
    EXPECT_GT(waited(units), 0.04) << units;
    EXPECT_LT(waited(units), 1) << units;
  }
}

}  // namespace
}  // namespace hone::ops::test
