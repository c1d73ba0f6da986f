// Layer normalisation and its sum form against their meaning and against LibTorch's own.
#include "ops/layer_norm.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

const Op kNorm = [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); };
const Op kPlain = [](const auto& in) { return reference::layer_norm(in[0], in[1], in[2], 1e-5); };
const Op kNoBias = [](const auto& in) { return layer_norm(in[0], in[1], {}, 1e-5); };
const Op kPlainNoBias = [](const auto& in) { return reference::layer_norm(in[0], in[1], {}, 1e-5); };
const Op kAdd = [](const auto& in) {
  const AddNorm made = add_layer_norm(in[0], in[1], in[2], in[3], 1e-5);
  return at::cat({made.sum, made.normed}, -1);
};
const Op kPlainAdd = [](const auto& in) {
  const AddNorm made = reference::add_layer_norm(in[0], in[1], in[2], in[3], 1e-5);
  return at::cat({made.sum, made.normed}, -1);
};

std::vector<Tensor> inputs(std::int64_t rows, std::int64_t cols) {
  return {sample({rows, cols}) + 3, sample({cols}, at::kDouble, 2), sample({cols}, at::kDouble, 4)};
}
std::vector<Tensor> with_residual(std::int64_t rows, std::int64_t cols) {
  auto made = inputs(rows, cols);
  made.insert(made.begin() + 1, sample({rows, cols}, at::kDouble, 3));
  return made;
}

TEST(LayerNorm, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t cols : {2, 7, 8, 15, 31, 32, 33, 64, 65, 1000}) {
    SCOPED_TRACE(cols);
    expect_matches(kNorm, kPlain, inputs(3, cols));
    expect_matches(kNoBias, kPlainNoBias, {inputs(3, cols)[0], inputs(3, cols)[1]});
    expect_matches(kAdd, kPlainAdd, with_residual(3, cols));
  }
}
TEST(LayerNorm, GradientsAreThoseOfDifferences) {
  gradcheck(kNorm, inputs(3, 5));
  gradcheck(kAdd, with_residual(3, 5));
}
TEST(LayerNorm, IsLibTorchs) {
  const auto in = inputs(4, 33);
  expect_close(kNorm(in), at::layer_norm(in[0], {33}, in[1], in[2], 1e-5), 1e-12, "value");
}
TEST(LayerNorm, ManyRowsSumTheWeightsGradientInAnOrderThatThreadsDoNotChange) {
  expect_matches(kNorm, kPlain, inputs(200, 16), at::kFloat);
  expect_same_bits_for_any_threads(kNorm, inputs(300, 130));
  expect_same_bits_for_any_threads(kAdd, with_residual(300, 130));
}
TEST(LayerNorm, AConstantRowIsTheBias) {
  const Tensor bias = sample({40}, at::kFloat), y = layer_norm(at::full({2, 40}, 1e4F), at::ones({40}), bias, 1e-5);
  expect_close(y[1], bias, 1e-6, "a constant row");
}
TEST(LayerNorm, TakesAnEmptyBatchAndAView) {
  EXPECT_EQ(layer_norm(sample({0, 8}), sample({8}), {}, 1e-5).size(0), 0);
  const Tensor view = sample({8, 4}).t();
  expect_close(layer_norm(view, sample({8}), {}, 1e-5), reference::layer_norm(view, sample({8}), {}, 1e-5), 1e-12,
               "a transposed view");
}
TEST(LayerNorm, KeepsNotANumber) {
  Tensor x = sample({2, 40}, at::kBFloat16);
  x[1][3] = NAN;
  EXPECT_TRUE(layer_norm(x, at::ones({40}, at::kBFloat16), {}, 1e-5)[1].isnan().all().item<bool>());
}

}  // namespace
}  // namespace hone::ops::test
