// Slow ranks are named, once, and even ones are not.
#include "train/pace.h"

#include <gtest/gtest.h>

namespace hone::training {
namespace {

std::string said(Pace& pace, const std::vector<double>& busy) {
  std::string all;
  for (std::int64_t step = 0; step < Pace::kSteps; ++step) all += pace.add(busy);
  return all;
}

TEST(Pace, NamesWhoTheOthersWaitFor) {
  Pace pace;
  EXPECT_EQ(said(pace, {1, 1.2, 0.9, 1.4}), "");
  EXPECT_EQ(said(pace, {1, 1.2, 2.5, 1}),
            "the others wait for rank 2: its part of a step took 2.5 s, the median rank's 1 s");
  EXPECT_EQ(said(pace, {1, 1.2, 2.5, 1}), "");
  EXPECT_EQ(said(pace, {2, 1.2, 1, 1}),
            "the others wait for rank 0: its part of a step took 2 s, the median rank's 1 s");
}

TEST(Pace, TwoRanksAndNone) {
  Pace pace;
  EXPECT_EQ(said(pace, {1, 2}), "the others wait for rank 1: its part of a step took 2 s, the median rank's 1 s");
  Pace quick, alone;
  EXPECT_EQ(said(quick, {0.0001, 0.0009}), "");
  EXPECT_EQ(said(alone, {1}), "");
}

}  // namespace
}  // namespace hone::training
