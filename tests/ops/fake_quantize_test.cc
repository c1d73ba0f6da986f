// Rounding to grids: what must hold whatever torchao has (tests/models/fake_quantized_test.cc).
#include "ops/fake_quantize.h"

#include "hone/gradient_sum.h"
#include "ops/check.h"
#include "ops/grid_cases.h"

namespace hone::ops::test {
namespace {

// What is once on a grid stays there: a rounded weight is rounded to itself.
TEST(FakeQuantized, IsWhatItsCodesAndScalesSay) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const hone::test::GridCase& one : hone::test::kGridCases) {
      SCOPED_TRACE(one.name);
      const Tensor weight = sample({5, 32}, at::kDouble).to(type);
      const OnGrid made = on_grid(weight, one.grid, one.group);
      EXPECT_EQ(made.scales_OG.scalar_type(), type);
      EXPECT_EQ(made.scales_OG.sizes(), (at::IntArrayRef{5, one.group > 0 ? 2 : 1}));
      EXPECT_TRUE(at::equal(off_grid(made), fake_quantized(weight, one.grid, one.group, nullptr)));
      const double off = largest(off_grid(made).to(at::kDouble) - weight.to(at::kDouble)), all = largest(weight);
      EXPECT_LT(off, all * (one.grid == Grid::int4 ? 0.09 : 0.07)) << toString(type);
    }
}

TEST(FakeQuantized, ZerosAndTinyNumbersStayFinite) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const hone::test::GridCase& one : hone::test::kGridCases)
      for (const double size : {0.0, 1e-7, 1e-40}) {
        const Tensor weight = at::full({2, 32}, size, type);
        EXPECT_TRUE(fake_quantized(weight, one.grid, one.group, nullptr).isfinite().all().item<bool>()) << one.name;
        EXPECT_TRUE(fake_quantized_rows(weight, Grid::int8).isfinite().all().item<bool>());
        EXPECT_TRUE(fake_quantized_rows(weight, Grid::float8).isfinite().all().item<bool>());
      }
}

TEST(FakeQuantized, TheGradientGoesIntoItsSum) {
  const Tensor weight = sample({4, 8}, at::kFloat).requires_grad_(true), direction = sample({4, 8}, at::kFloat, 2);
  const auto run = [&](GradientSum* sum) { (fake_quantized(weight, Grid::int4, 4, sum) * direction).sum().backward(); };
  run(nullptr);
  const Tensor alone = weight.grad().clone();
  GradientSum sum{at::full({4, 8}, 7.0F)};
  run(&sum);
  EXPECT_TRUE(sum.full());
  EXPECT_TRUE(at::equal(sum.sum, alone));
  run(&sum);
  EXPECT_TRUE(at::equal(sum.sum, 2 * alone));
  EXPECT_TRUE(at::equal(weight.grad(), alone));
}

}  // namespace
}  // namespace hone::ops::test
