// Advantages of tokens, by hand and over ranks.
#include "objectives/gae.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dist/ranks.h"

namespace hone::objectives {
namespace {

// Whitening takes the mean off and divides by the deviation: what is left shows what went in.
std::vector<double> whitened(std::vector<double> values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  for (double& value : values)
    value = (value - mean) / std::sqrt(squares / static_cast<double>(values.size() - 1) + 1e-8);
  return values;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

TEST(Gae, ScoresComeAtTheEndAndDistanceAtEachToken) {
  const Trajectory answer{{-1, -2}, {-1.5, -1}, {0.5, 0.25}, 3};
  const auto [advantages, returns] = estimates_of({answer}, {.kl_coef = 0.1, .gamma = 0.9, .lam = 0.8}, World())[0];
  // Rewards -0.1 * (0.5, -1), the last one with 3 more.
  const double last = 0.1 + 3 - 0.25, first = -0.05 + 0.9 * 0.25 - 0.5 + 0.9 * 0.8 * last;
  expect_near(returns, {first + 0.5, last + 0.25});
  expect_near(advantages, whitened({first, last}));
}

// What follows the last token has a value of its own, and the score is given there.
TEST(Gae, AnAnswerThatEndedEarlyHasAValueBehindIt) {
  const Trajectory answer{{-1, -2}, {-1, -2}, {0.5, 0.25, 0.125}, 3};
  const auto [advantages, returns] = estimates_of({answer}, {.gamma = 1, .lam = 0.5}, World())[0];
  const double behind = 3 - 0.125, last = 0.125 - 0.25 + 0.5 * behind, first = 0.25 - 0.5 + 0.5 * last;
  expect_near(returns, {first + 0.5, last + 0.25, behind + 0.125});
  expect_near(advantages, whitened({first, last}));
}

TEST(Gae, EstimatorsOfDistance) {
  EXPECT_DOUBLE_EQ(kl_of(KlEstimator::k1, -1, -3), 2);
  EXPECT_DOUBLE_EQ(kl_of(KlEstimator::k3, -1, -3), std::exp(-2) - 1 + 2);
  EXPECT_GE(kl_of(KlEstimator::k3, -3, -1), 0);
}

TEST(Gae, AnAnswerWithoutTokensIsPassedOver) {
  const Trajectory none{{}, {}, {}, 1}, one{{-1}, {-1}, {0.5}, 2};
  const auto made = estimates_of({none, one}, {.whiten_rewards = true}, World());
  EXPECT_TRUE(made[0].advantages.empty());
  EXPECT_TRUE(made[0].returns.empty());
  expect_near(made[1].advantages, {0});  // alone it is the mean
}

TEST(Gae, RanksScaleTogether) {
  const std::vector<Trajectory> answers{{{-1, -2}, {-1.5, -1}, {0.5, 0.25}, 3},
                                        {{-3}, {-1}, {1, 0.5}, -1},
                                        {{-2, -2, -1}, {-1, -2, -3}, {0, 1, 2}, 0.5},
                                        {{-1}, {-2}, {0.75}, 2}};
  const GaeOptions options{.kl_coef = 0.3, .whiten_rewards = true};
  const auto all = estimates_of(answers, options, World());
  test::on_ranks(2, [&](const World& world) {
    const auto own = static_cast<std::size_t>(world.rank());
    const auto some = estimates_of({answers[own], answers[own + 2]}, options, world);
    expect_near(some[0].advantages, all[own].advantages);
    expect_near(some[1].returns, all[own + 2].returns);
  });
}

}  // namespace
}  // namespace hone::objectives
