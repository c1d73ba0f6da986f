// Time as people read it.
#include "base/clock.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Clock, IsoTimesAreUtc) {
  EXPECT_EQ(iso_utc(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(iso_utc(1738555445.9), "2025-02-03T04:04:05Z");
}

TEST(Clock, MonotonicNeverGoesBack) {
  double last = monotonic_seconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = monotonic_seconds();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace hone
