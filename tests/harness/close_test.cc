// EXPECT_CLOSE refuses what is not close, and says where it is worst.
#include "harness/close.h"

#include <gmock/gmock.h>

namespace hone::test {
namespace {

using ::testing::HasSubstr;

at::Tensor row(std::initializer_list<double> values, at::ScalarType type = at::kFloat) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble).to(type);
}

TEST(Close, AcceptsEqualAndNearlyEqualTensors) {
  EXPECT_CLOSE(row({1, 2, 3}), row({1, 2, 3}));
  EXPECT_CLOSE(row({1, 2, 3}), row({1, 2, 3.00001}));
  EXPECT_CLOSE(row({}), row({}));
}

TEST(Close, SaysWhichElementIsWorst) {
  const at::Tensor expected = at::zeros({2, 3});
  at::Tensor got = expected.clone();
  got[0][1] = 0.5;
  got[1][2] = 2;
  const auto result = close(got, expected, {0, 1e-3});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.message(),
              HasSubstr("worst element [1, 2] of [2, 3]: got 2, expected 0, difference 2, tolerance 0.001"));
  EXPECT_THAT(result.message(), HasSubstr("2 of 6 elements differ"));
}

TEST(Close, RefusesAnotherShapeAndUndefinedTensors) {
  EXPECT_FALSE(close(at::zeros({2, 3}), at::zeros({3, 2})));
  EXPECT_FALSE(close(at::zeros({1}), at::zeros({})));
  EXPECT_FALSE(close(at::Tensor(), at::zeros({1})));
}

TEST(Close, NeverTakesNanForANumber) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(close(row({nan}), row({1})));
  EXPECT_FALSE(close(row({1}), row({nan})));
  EXPECT_FALSE(close(row({inf}), row({1})));
  EXPECT_FALSE(close(row({inf}), row({-inf})));
  EXPECT_CLOSE(row({nan, inf}), row({nan, inf}));
}

TEST(Close, ToleranceIsOfTheLessPreciseType) {
  EXPECT_FALSE(close(row({1}), row({1.01})));
  EXPECT_CLOSE(row({1}, at::kBFloat16), row({1.01}));
  EXPECT_FALSE(close(at::ones({2}, at::kLong), at::zeros({2}, at::kLong)));
}

TEST(Close, ToTheLargestIsAShareOfTheLargestValue) {
  EXPECT_TRUE(close_to_largest(row({100, 0.0009}), row({100, 0}), 1e-5));
  EXPECT_FALSE(close_to_largest(row({100, 0.0011}), row({100, 0}), 1e-5));
}

}  // namespace
}  // namespace hone::test
