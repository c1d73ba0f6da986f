// Teams: nobody passes a barrier before all have come, and shares cover everything once.
#include "ops/team.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace hone::ops {
namespace {

class Team : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { at::set_num_threads(GetParam()); }
  void TearDown() override { at::set_num_threads(old_); }
  int old_ = at::get_num_threads();
};

TEST_P(Team, WaitsForAllItsMembers) {
  constexpr int kRounds = 2000;
  std::array<std::array<int, 64>, 8> round{};  // per member, a cache line apart or more
  std::atomic<int> wrong{0}, members{0};
  run_team([&](const Member& me) {
    if (me.number == 0) members = me.size;
    for (int r = 1; r <= kRounds; ++r) {
      round[me.number][0] = r;
      me.wait();
      for (int other = 0; other < me.size; ++other)
        if (round[other][0] != r) ++wrong;
      me.wait();
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(members, GetParam());
}

TEST_P(Team, SharesEverythingOnce) {
  for (const std::int64_t units : {0, 1, 2, 7, 64}) {
    std::vector<std::atomic<int>> done(units);
    run_team([&](const Member& me) {
      for (std::int64_t u = me.begin(units); u < me.end(units); ++u) ++done[u];
    });
    for (const auto& count : done) EXPECT_EQ(count, 1);
  }
}

TEST_P(Team, IsOneInsideAParallelRegion) {
  at::parallel_for(0, 4, 1, [](std::int64_t, std::int64_t) {
    if (at::in_parallel_region()) run_team([](const Member& me) { EXPECT_EQ(me.size, 1); });
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Team, testing::Values(1, 2, 5));  // 5: more than there may be processors

}  // namespace
}  // namespace hone::ops
