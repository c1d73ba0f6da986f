// Losses of pairs where formulas alone would break.
#include "objectives/pair_losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hone::objectives {
namespace {

// An answer that is certain has infinite odds, one that is impossible none.
TEST(LogOddsRatio, IsFiniteAndHasGradientsAtTheEnds) {
  const Tensor chosen_P = at::tensor({0.0, -3.0, 0.0, -800.0, -0.5}, at::kDouble).requires_grad_(true),
               rejected_P = at::tensor({-3.0, 0.0, 0.0, -1.0, -0.7}, at::kDouble).requires_grad_(true);
  const Tensor ratio_P = log_odds_ratio({chosen_P, rejected_P, {}, {}});
  at::log_sigmoid(ratio_P).sum().backward();
  for (const Tensor& made : {ratio_P, chosen_P.grad(), rejected_P.grad()})
    EXPECT_TRUE(made.isfinite().all().item<bool>()) << made;
  EXPECT_GT(ratio_P[0].item<double>(), 20);
  EXPECT_LT(ratio_P[1].item<double>(), -20);
  EXPECT_EQ(ratio_P[2].item<double>(), 0);
  const auto log_odds = [](double log_p) { return std::log(std::exp(log_p) / (1 - std::exp(log_p))); };
  EXPECT_NEAR(ratio_P[4].item<double>(), log_odds(-0.5) - log_odds(-0.7), 1e-12);
}

}  // namespace
}  // namespace hone::objectives
