// Time by section: inner sections are taken out of outer ones; nothing is counted when nobody asks.
#include "base/sections.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/clock.h"

namespace hone::sections {
namespace {

double of(const Totals& totals, Section section) { return totals.seconds[static_cast<std::size_t>(section)]; }

void spend(double seconds) {
  const double until = monotonic_seconds() + seconds;
  while (monotonic_seconds() < until) {
  }
}

TEST(Sections, TimeBelongsToTheInnermost) {
  const Stopwatch watch;
  start();
  {
    const Timed outer(Section::loss);
    spend(0.01);
    {
      const Timed inner(Section::matmul);
      add_flop(5), add_bytes(7), add_waited(0.5);
      spend(0.02);
    }
    spend(0.01);
  }
  const Totals totals = stop();
  EXPECT_GE(of(totals, Section::loss), 0.02);
  EXPECT_GE(of(totals, Section::matmul), 0.02);
  EXPECT_EQ(totals.flop[static_cast<std::size_t>(Section::matmul)], 5);
  EXPECT_EQ(totals.flop[static_cast<std::size_t>(Section::loss)], 0);
  EXPECT_EQ(totals.bytes[static_cast<std::size_t>(Section::matmul)], 7);
  EXPECT_EQ(totals.waited[static_cast<std::size_t>(Section::matmul)], 0.5);
  const double sum = std::accumulate(totals.seconds.begin(), totals.seconds.end(), 0.0);
  EXPECT_LE(sum, watch.seconds());
}

TEST(Sections, NothingIsCountedUnlessStarted) {
  {
    const Timed section(Section::data);
  }
  start();
  std::thread([] {
    const Timed section(Section::data);
    spend(0.01);
  }).join();
  const Totals totals = stop();
  EXPECT_EQ(of(totals, Section::data), 0);
}

}  // namespace
}  // namespace hone::sections
