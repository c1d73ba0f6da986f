// Tokens drawn from a head: as often as it says, the same each time, only where there are labels.
#include "nn/draw_labels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hone::nn {
namespace {

TEST(DrawLabels, AsOftenAsTheHeadSays) {
  Head head(2, 3, 0.02);
  head.each_weight([](const std::string&, Weight& weight) {
    weight.fill(at::tensor({1.0f, 0.0f, 0.0f, 1.0f, -1.0f, 0.5f}).view({3, 2}));
  });
  constexpr std::int64_t kTokens = 6000;
  const Tensor hidden = at::tensor({0.5f, -1.0f}).expand({1, kTokens, 2}).contiguous();
  Tensor labels = at::zeros({1, kTokens}, at::kLong);
  labels[0].slice(0, 0, 100).fill_(-100);
  const Batch batch;
  const Pass pass(batch);
  const Tensor drawn = draw_labels(head, hidden, labels, pass, Random(7, "drawn"));
  EXPECT_TRUE((drawn[0].slice(0, 0, 100) == -100).all().item<bool>());
  const Tensor shares = at::softmax(head.logits(hidden[0][0], pass), -1);
  for (std::int64_t token = 0; token < 3; ++token) {
    const double share = (drawn[0].slice(0, 100) == token).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, shares[token].item<double>(), 0.025) << token;
  }
  EXPECT_TRUE(at::equal(drawn, draw_labels(head, hidden, labels, pass, Random(7, "drawn"))));
  EXPECT_FALSE(at::equal(drawn, draw_labels(head, hidden, labels, pass, Random(7, "others"))));
}

TEST(DrawLabels, NothingWhereThereIsNoLabel) {
  Head head(2, 3, 0.02);
  const Tensor labels = at::full({1, 4}, -100, at::kLong);
  const Batch batch;
  const Pass pass(batch);
  EXPECT_TRUE(at::equal(draw_labels(head, at::zeros({1, 4, 2}), labels, pass, Random(7, "drawn")), labels));
}

}  // namespace
}  // namespace hone::nn
