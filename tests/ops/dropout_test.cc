// Dropout by counter against its meaning.
#include "ops/dropout.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

Op fast_dropout(double rate, std::uint64_t seed = 7) {
  return [=](const auto& in) { return seeded_dropout(in[0], rate, seed); };
}
Op plain(double rate, std::uint64_t seed = 7) {
  return [=](const auto& in) { return reference::seeded_dropout(in[0], rate, seed); };
}

TEST(Dropout, EveryKernelAgreesWithItsMeaning) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9})
    for (const std::int64_t columns : {1, 3, 15, 16, 17, 100})
      expect_matches(fast_dropout(rate), plain(rate), {sample({2, 5, columns})});
}
TEST(Dropout, GradientsAreThoseOfDifferences) { gradcheck(fast_dropout(0.4), {sample({3, 7})}); }
TEST(Dropout, ThreadsDoNotChangeABit) { expect_same_bits_for_any_threads(fast_dropout(0.3), {sample({300, 130})}); }

TEST(Dropout, KeepsTheMeanAndDependsOnTheSeedOnly) {
  const Tensor x = at::ones({700, 300});
  for (const double rate : {0.1, 0.5, 0.9}) {
    const Tensor one = seeded_dropout(x, rate, 1), dropped = one.eq(0).to(at::kDouble);
    EXPECT_NEAR(dropped.mean().item<double>(), rate, 5 * std::sqrt(rate * (1 - rate) / 210000));
    EXPECT_LT(dropped.mean(0).std().item<double>(), 1.3 * std::sqrt(rate * (1 - rate) / 700));  // no column is special
    EXPECT_LT(dropped.mean(1).std().item<double>(), 1.3 * std::sqrt(rate * (1 - rate) / 300));  // no row is
    EXPECT_FLOAT_EQ(one.max().item<float>(), static_cast<float>(1 / (1 - rate)));
    EXPECT_TRUE(at::equal(one, seeded_dropout(x, rate, 1)));
    EXPECT_FALSE(at::equal(one, seeded_dropout(x, rate, 2)));
  }
}
TEST(Dropout, TakesNothing) { EXPECT_EQ(seeded_dropout(at::empty({0, 3}), 0.5, 1).numel(), 0); }

}  // namespace
}  // namespace hone::ops::test
