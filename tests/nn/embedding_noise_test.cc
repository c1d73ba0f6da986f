// Noise on embedded tokens: its size by the length of the document, its distribution, where there is none.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/layers.h"
#include "ops/noise.h"

namespace hone::test {
namespace {

TEST(EmbeddingNoise, IsEvenAndAFunctionOfTheSeed) {
  const Tensor x = ops::even_noise(300, 500, 7, at::kCPU);
  EXPECT_TRUE(at::equal(x, ops::even_noise(300, 500, 7, at::kCPU)));
  EXPECT_FALSE(at::equal(x, ops::even_noise(300, 500, 8, at::kCPU)));
  EXPECT_LT(x.max().item<float>(), 1.0001f);
  EXPECT_GE(x.min().item<float>(), -1);
  EXPECT_NEAR(x.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(x.square().mean().item<double>(), 1.0 / 3, 0.01);
  EXPECT_NEAR((x.narrow(0, 0, 299) * x.narrow(0, 1, 299)).mean().item<double>(), 0, 0.01);  // rows know nothing
  EXPECT_NEAR((x.narrow(1, 0, 499) * x.narrow(1, 1, 499)).mean().item<double>(), 0, 0.01);
}

// Documents of 16 and 4 tokens, padding of 4; width 64, alpha 8: 0.25 and 0.5.
TEST(EmbeddingNoise, IsSmallerInLongDocumentsAndNoneOnPadding) {
  Batch batch;
  batch.docs = {{.row = 0, .begin = 0, .end = 16}, {.row = 0, .begin = 16, .end = 20}};
  Pass pass(batch);
  pass.seed = 3;
  pass.embedding_noise = 8;
  const Tensor x = at::ones({1, 24, 64}, at::kDouble);
  EXPECT_TRUE(at::equal(nn::embedding_noise(x, pass), x));  // no training
  pass.training = true;
  const Tensor noise = nn::embedding_noise(x, pass) - x;
  const auto most = [&](std::int64_t begin, std::int64_t count) {
    return noise.narrow(1, begin, count).abs().max().item<double>();
  };
  EXPECT_NEAR(most(0, 16), 0.25, 0.01);
  EXPECT_NEAR(most(16, 4), 0.5, 0.02);
  EXPECT_EQ(most(20, 4), 0);
  pass.embedding_noise = 0;
  EXPECT_TRUE(at::equal(nn::embedding_noise(x, pass), x));
}

}  // namespace
}  // namespace hone::test
