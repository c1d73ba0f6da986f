// Advantages from rewards, and their statistics.
#include "objectives/advantages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hone::objectives {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(Moments, OfPartsAreThoseOfTheWhole) {
  const std::vector<double> values = {1e8 + 1, 1e8 + 2, kNone, 1e8 + 4, 1e8 - 3, kNone};
  Moments parts;
  for (const Moments& one : moments_by_group(values, 2)) parts.add(one);
  const Moments whole = moments_by_group(values, 6).at(0);
  for (const Moments& one : {parts, whole}) {
    EXPECT_EQ(one.count, 4);
    EXPECT_DOUBLE_EQ(one.mean, 1e8 + 1);
    EXPECT_NEAR(one.std(), std::sqrt((0 + 1 + 9 + 16) / 3.0), 1e-7);
    EXPECT_EQ(one.low, 1e8 - 3);
    EXPECT_EQ(one.high, 1e8 + 4);
  }
  EXPECT_TRUE(std::isnan(moments_by_group(values, 1)[0].std()));
}

TEST(GroupAdvantages, AreDifferencesFromTheGroupByItsDeviation) {
  const std::vector<double> rewards = {0, 1, 1, 2, /*next prompt*/ 3, 3, 3, 3};
  const auto made = group_advantages({rewards}, {.each = 4, .weights = {1}}, World());
  const double std = std::sqrt(2.0 / 3);
  const std::vector<double> expected = {-1 / (std + 1e-4), 0, 0, 1 / (std + 1e-4), 0, 0, 0, 0};
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-12) << i;
  const auto plain = group_advantages({rewards}, {.each = 4, .scale = ScaleRewards::none, .weights = {1}}, World());
  EXPECT_EQ(plain, (std::vector<double>{-1, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(GroupAdvantages, WhatNobodyJudgesIsLeftOut) {
  const auto made = group_advantages({{0, kNone, 2, kNone}, {kNone, kNone, 1, 5}},
                                     {.each = 4, .scale = ScaleRewards::none, .weights = {1, 2}}, World());
  // Sums 0, none, 4, 10: their mean is 14/3.
  EXPECT_NEAR(made[0], -14.0 / 3, 1e-12);
  EXPECT_EQ(made[1], 0);
  EXPECT_NEAR(made[3], 16.0 / 3, 1e-12);
  const auto alone = group_advantages({{7, kNone}}, {.each = 2, .weights = {1}}, World());
  EXPECT_EQ(alone, (std::vector<double>{0, 0}));  // one has no deviation
}

TEST(GroupAdvantages, NormalizedFirstNoRewardDrownsAnother) {
  const std::vector<std::vector<double>> rewards = {{0, 1, 0, 1}, {100, 100, 0, 0}};
  const auto made = group_advantages(
      rewards, {.each = 4, .aggregate = AggregateRewards::normalize_then_sum, .weights = {1, 1}}, World());
  EXPECT_NEAR(made[0], 0, 1e-3);
  EXPECT_NEAR(made[3], 0, 1e-3);
  EXPECT_GT(made[1], 1);
  EXPECT_LT(made[2], -1);
}

TEST(LeaveOneOut, ComparesWithTheOthers) {
  const auto made = leave_one_out({1, 2, 6, kNone, 5, kNone, kNone, kNone}, 4, false, World());
  EXPECT_EQ(made, (std::vector<double>{1 - 4, 2 - 3.5, 6 - 1.5, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace hone::objectives
