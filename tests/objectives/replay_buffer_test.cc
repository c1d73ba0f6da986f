// Which groups a replay buffer keeps and draws, and that a checkpoint has them all.
#include "objectives/replay_buffer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/errors.h"

namespace hone::objectives {
namespace {

KeptGroup kept(double score, std::int64_t record, std::size_t tokens = 3) {
  KeptGroup group{.score = score, .record = record};
  for (std::size_t i = 0; i < tokens; ++i) group.prompt.push_back(static_cast<std::int32_t>(i * 7 % 300000));
  group.answers = {{{1, 2, 299999}, true}, {{}, false}, {{67000000}, true}};
  group.rewards = {{1, 0, 0.5}, {std::nan(""), -1, 1e-9}};
  return group;
}

std::vector<std::int64_t> records(const ReplayBuffer& buffer) {
  std::vector<std::int64_t> all;
  for (const KeptGroup& group : buffer.groups()) all.push_back(group.record);
  return all;
}

TEST(ReplayBuffer, KeepsTheHighestScoresAndOfEqualsTheFirst) {
  ReplayBuffer buffer(3);
  buffer.add({kept(1, 10), kept(3, 11), kept(2, 12), kept(2, 13)});
  EXPECT_EQ(records(buffer), (std::vector<std::int64_t>{11, 12, 13}));
  buffer.add({kept(2, 14), kept(5, 15)});
  EXPECT_EQ(records(buffer), (std::vector<std::int64_t>{15, 11, 12}));
  buffer.add({});
  EXPECT_EQ(buffer.groups().size(), 3u);
}

TEST(ReplayBuffer, DrawsByScores) {
  ReplayBuffer buffer(3);
  buffer.add({kept(6, 0), kept(3, 1), kept(1, 2)});
  EXPECT_EQ(buffer.drawn(0), 0u);
  EXPECT_EQ(buffer.drawn(0.599), 0u);
  EXPECT_EQ(buffer.drawn(0.601), 1u);
  EXPECT_EQ(buffer.drawn(0.899), 1u);
  EXPECT_EQ(buffer.drawn(0.901), 2u);
  EXPECT_EQ(buffer.drawn(0.9999999), 2u);
  ReplayBuffer flat(2);
  flat.add({kept(0, 0), kept(0, 1)});
  EXPECT_EQ(flat.drawn(0.49), 0u);
  EXPECT_EQ(flat.drawn(0.51), 1u);
}

TEST(ReplayBuffer, IsThereAgainFromItsState) {
  ReplayBuffer buffer(4), again(4);
  buffer.add({kept(1.5, 3), kept(0.25, 1LL << 40, 0), kept(0.1, 5, 10)});
  Sums state = buffer.state();
  state["another"] = 1, state["replaying"] = 2;
  again.set_state(state);
  ASSERT_EQ(records(again), records(buffer));
  for (std::size_t i = 0; i < buffer.groups().size(); ++i) {
    const KeptGroup &a = buffer.groups()[i], &b = again.groups()[i];
    EXPECT_EQ(a.score, b.score);
    EXPECT_EQ(a.prompt, b.prompt);
    EXPECT_EQ(a.answers, b.answers);
    EXPECT_EQ(a.rewards[0], b.rewards[0]);
    EXPECT_TRUE(std::isnan(b.rewards[1][0]));
    EXPECT_EQ(a.rewards[1][2], b.rewards[1][2]);
  }
  again.set_state({});
  EXPECT_TRUE(again.groups().empty());
}

TEST(ReplayBuffer, HoldsNoMoreThanACheckpointCan) {
  ReplayBuffer buffer(1000);
  std::vector<KeptGroup> groups;
  for (int i = 0; i < 20; ++i) groups.push_back(kept(20 - i, i, 20000));
  buffer.add(std::move(groups));
  EXPECT_EQ(buffer.groups().size(), 13u);  // of about 10,000 numbers each
  EXPECT_EQ(records(buffer).front(), 0);
  EXPECT_LE(buffer.state().size(), std::size_t{1} << 17);
}

TEST(ReplayBuffer, AGroupThatIsTooLongStandsInNobodysWay) {
  ReplayBuffer buffer(3);
  buffer.add({kept(5, 0, 400000), kept(4, 1), kept(3, 2, 200000), kept(2, 3, 100000), kept(1, 4)});
  EXPECT_EQ(records(buffer), (std::vector<std::int64_t>{1, 2, 4}));
}

TEST(ReplayBuffer, GroupsOfOtherNumbersAreForgotten) {
  ReplayBuffer buffer(5);
  KeptGroup other = kept(2, 7);
  other.rewards.pop_back();
  buffer.add({kept(3, 6), other, kept(1, 8)});
  buffer.leave_out_unlike(3, 2);
  EXPECT_EQ(records(buffer), (std::vector<std::int64_t>{6, 8}));
  buffer.leave_out_unlike(4, 2);
  EXPECT_TRUE(buffer.groups().empty());
}

TEST(ReplayBuffer, StatesOfSomethingElseAreRefused) {
  const std::vector<double> whole = numbers_of({kept(1, 2)});
  ReplayBuffer buffer(2);
  for (std::size_t size = 1; size < whole.size(); ++size)
    EXPECT_HONE_ERROR(groups_in({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), checkpoint,
                      "the checkpoint's answers cannot be read");
  for (const double bad : {-1.0, 0.5, 1e300, std::nan("")})
    EXPECT_HONE_ERROR(groups_in({1, 2, bad}), checkpoint, "cannot be read");
}

}  // namespace
}  // namespace hone::objectives
