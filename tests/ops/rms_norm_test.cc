// RMSNorm and its sum form against their meaning.
#include "ops/rms_norm.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

const Op kRmsNorm = [](const auto& in) { return rms_norm(in[0], in[1], 1e-6); };
const Op kPlainRmsNorm = [](const auto& in) { return reference::rms_norm(in[0], in[1], 1e-6); };
const Op kAdd = [](const auto& in) {
  const AddNorm made = add_rms_norm(in[0], in[1], in[2], 1e-6);
  return at::cat({made.sum, made.normed}, -1);
};
const Op kPlainAdd = [](const auto& in) {
  const AddNorm made = reference::add_rms_norm(in[0], in[1], in[2], 1e-6);
  return at::cat({made.sum, made.normed}, -1);
};

TEST(RmsNorm, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t cols : {1, 7, 8, 31, 32, 33, 64, 1000}) {
    SCOPED_TRACE(cols);
    expect_matches(kRmsNorm, kPlainRmsNorm, {sample({3, cols}), sample({cols}, at::kDouble, 2)});
    expect_matches(kAdd, kPlainAdd,
                   {sample({3, cols}), sample({3, cols}, at::kDouble, 3), sample({cols}, at::kDouble, 2)});
  }
}
TEST(RmsNorm, GradientsAreThoseOfDifferences) {
  gradcheck(kRmsNorm, {sample({2, 3, 5}), sample({5}, at::kDouble, 2)});
  gradcheck(kAdd, {sample({3, 5}), sample({3, 5}, at::kDouble, 3), sample({5}, at::kDouble, 2)});
}
TEST(RmsNorm, ManyRowsSumTheWeightsGradient) {
  expect_matches(kRmsNorm, kPlainRmsNorm, {sample({200, 16}), sample({16}, at::kDouble, 2)}, at::kFloat);
}
TEST(RmsNorm, NormalisesAnEmptyBatchAndAView) {
  EXPECT_EQ(rms_norm(sample({0, 8}), sample({8}), 1e-6).sizes(), (std::vector<std::int64_t>{0, 8}));
  const Tensor view = sample({8, 4}).t();
  expect_close(rms_norm(view, sample({8}), 1e-6), reference::rms_norm(view, sample({8}), 1e-6), 1e-12,
               "a transposed view");
}
TEST(RmsNorm, KeepsNotANumber) {
  Tensor x = sample({2, 40}, at::kBFloat16);
  x[1][3] = NAN;
  EXPECT_TRUE(rms_norm(x, at::ones({40}, at::kBFloat16), 1e-6)[1].isnan().all().item<bool>());
}

}  // namespace
}  // namespace hone::ops::test
