// xIELU against its meaning, in value and in each gradient.
#include "ops/xielu.h"

#include <cmath>

#include "ops/check.h"
#include "tensor/meta_memory.h"

namespace hone::ops::test {
namespace {

Xielu form_of(const Tensor& positive, const Tensor& negative, double eps = -1e-6) {
  return {positive, negative, at::tensor(0.5, at::kDouble), at::tensor(eps, at::kDouble)};
}
const Op kBend = [](const auto& in) { return xielu(in[0], form_of(in[1], in[2])); };
const Op kPlainBend = [](const auto& in) { return reference::xielu(in[0], form_of(in[1], in[2])); };

std::vector<Tensor> inputs(at::IntArrayRef shape) {
  return {sample(shape), sample({1}, at::kDouble, 2), sample({1}, at::kDouble, 3)};
}

TEST(Xielu, AgreesWithItsMeaning) {
  for (const std::int64_t cols : {1, 7, 64, 1000}) expect_matches(kBend, kPlainBend, inputs({2, 3, cols}));
  expect_matches(kBend, kPlainBend, inputs({0, 8}));
}
TEST(Xielu, GradientsAreThoseOfDifferences) { gradcheck(kBend, inputs({3, 5})); }

// By hand: softplus(0) is log 2.
TEST(Xielu, IsAParabolaAboveZeroAndABendBelow) {
  const Tensor zero = at::zeros({1}, at::kDouble),
               y = xielu(at::tensor({2.0, -1.0, 0.0}, at::kDouble), form_of(zero, zero));
  const double steep = std::log(2.0), below = steep + 0.5;
  expect_close(
      y, at::tensor({4 * steep + 1, below * (std::expm1(-1.0) + 1) - 0.5, below * std::expm1(-1e-6)}, at::kDouble),
      1e-12, "three numbers");
}

// Between eps and 0 exponents do not follow x, and neither do their gradients.
TEST(Xielu, ExponentsAreCut) {
  const Tensor x = at::tensor({-0.3, -0.7}, at::kDouble).requires_grad_(true), zero = at::zeros({1}, at::kDouble);
  xielu(x, form_of(zero, zero, -0.5)).sum().backward();
  const double below = std::log(2.0) + 0.5;
  expect_close(x.grad(), at::tensor({0.5 - below, 0.5 + below * (std::exp(-0.7) - 1)}, at::kDouble), 1e-12, "slopes");
}

// hone plan goes both ways without a number.
TEST(Xielu, GoesBothWaysOnTensorsWithoutMemory) {
  const MetaMemory memory;
  const auto meta = [](at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions(at::kFloat).device(at::kMeta));
  };
  const Tensor x = meta({2, 3}).requires_grad_(true);
  xielu(x, {meta({1}), meta({1}), meta({}), meta({})}).sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

}  // namespace
}  // namespace hone::ops::test
