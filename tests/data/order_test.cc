// StreamOrder: shuffling, weights and epochs as a function of (seed, position).
#include "data/order.h"

#include <map>

#include "harness/cpu_time.h"
#include "support.h"

namespace hone::test {
namespace {

using data::StreamOrder;
using Part = StreamOrder::Part;

std::map<std::int64_t, int> seen(const StreamOrder& order, std::int64_t epoch, bool shuffle) {
  std::map<std::int64_t, int> counts;
  for (std::int64_t i = 0; i < order.epoch_rows(); ++i)
    ++counts[order.row_at(epoch * order.epoch_rows() + i, 7, shuffle)];
  return counts;
}

TEST(StreamOrder, SeesEveryRowOncePerEpoch) {
  const StreamOrder order({Part{10, 1}, Part{1, 1}, Part{37, 1}});
  EXPECT_EQ(order.rows(), 48);
  EXPECT_EQ(order.epoch_rows(), 48);
  for (const bool shuffle : {false, true})
    for (const std::int64_t epoch : {0, 1, 5}) {
      const auto counts = seen(order, epoch, shuffle);
      EXPECT_EQ(counts.size(), 48u);
      for (const auto& [row, count] : counts) EXPECT_EQ(count, 1) << row;
    }
}

TEST(StreamOrder, IsTheFilesOrderWithoutShuffling) {
  const StreamOrder order({Part{3, 1}, Part{2, 1}});
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(order.row_at(i, 1, false), i % 5);
}

TEST(StreamOrder, TakesTheOtherHalfInTheNextEpoch) {
  const StreamOrder order({Part{10, 0.5}, Part{4, 2}, Part{100, 0}});
  EXPECT_EQ(order.rows(), 114);
  EXPECT_EQ(order.epoch_rows(), 5 + 8);
  for (const bool shuffle : {false, true}) {
    auto first = seen(order, 0, shuffle), second = seen(order, 1, shuffle);
    for (std::int64_t row = 0; row < 10; ++row) EXPECT_EQ(first[row] + second[row], 1) << row;
    for (std::int64_t row = 10; row < 14; ++row) EXPECT_EQ(first[row], 2) << row;
    for (std::int64_t row = 14; row < 114; ++row) EXPECT_EQ(first.count(row), 0u) << row;
  }
}

TEST(StreamOrder, TakesAtLeastOneRowOfAFileThatIsUsed) {
  const StreamOrder order({Part{10, 0.001}, Part{10, 1}});
  EXPECT_EQ(order.epoch_rows(), 11);
  EXPECT_EQ(order.row_at(0, 1, false), 0);
  EXPECT_EQ(order.row_at(11, 1, false), 1);
}

TEST(StreamOrder, DependsOnSeedAndEpochOnly) {
  const StreamOrder order({Part{1000, 1}});
  int same_seed = 0, other_seed = 0, other_epoch = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t row = order.row_at(i, 1, true);
    same_seed += row == StreamOrder({Part{1000, 1}}).row_at(i, 1, true);
    other_seed += row == order.row_at(i, 2, true);
    other_epoch += row == order.row_at(1000 + i, 1, true);
  }
  EXPECT_EQ(same_seed, 1000);
  EXPECT_LT(other_seed, 10);
  EXPECT_LT(other_epoch, 10);
}

TEST(StreamOrder, FindsAnyPositionOfABillionRowsAtOnce) {
  const StreamOrder order({Part{600'000'000, 1}, Part{400'000'000, 1.5}});
  EXPECT_EQ(order.epoch_rows(), 1'200'000'000);
  std::int64_t sum = 0;
  const double seconds = cpu_seconds_of([&] {
    for (std::int64_t i = 0; i < 10'000; ++i) {
      const std::int64_t row = order.row_at(123'456'789'012'345 + i * 99'999'999'977, 3, true);
      ASSERT_GE(row, 0);
      ASSERT_LT(row, order.rows());
      sum += row;
    }
  });
  EXPECT_GT(sum, 0);
  EXPECT_LT(seconds, 5);  // about 10 ms without sanitizers
}

}  // namespace
}  // namespace hone::test
