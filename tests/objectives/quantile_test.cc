// Quantiles as torch.quantile has them; over ranks they are in policy_runs_test.cc.
#include "objectives/quantile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hone::objectives {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Quantile, IsBetweenNeighboursInProportion) {
  EXPECT_EQ(quantile_over(World(), {4, 1, 2}, 0), 1);
  EXPECT_EQ(quantile_over(World(), {4, 1, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile_over(World(), {4, 1, 2}, 0.75), 3);
  EXPECT_EQ(quantile_over(World(), {7}, 0.3), 7);
}

TEST(Quantile, IsNaNOfNoneAndOfWhatHasNoOrder) {
  EXPECT_TRUE(std::isnan(quantile_over(World(), {}, 0.5)));
  std::vector<double> many(100, kNaN);  // sorted, they would be read beyond their end
  for (std::size_t i = 0; i < many.size(); i += 3) many[i] = static_cast<double>(i);
  EXPECT_TRUE(std::isnan(quantile_over(World(), many, 0.5)));
}

}  // namespace
}  // namespace hone::objectives
