// RMSNorm and its sum form against their meaning.
#include "ops/rms_norm.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

const Op kRmsNorm = [](const auto& in) { return rms_norm(in[0], in[1], 1e-6); };
const Op kPlainRmsNorm = [](const auto& in) { return reference::rms_norm(in[0], in[1], 1e-6); };
const Op kAddRms = [](const auto& in) {
  const AddNorm made = add_rms_norm(in[0], in[1], in[2], 1e-6);
  return at::cat({made.sum, made.normed}, -1);
};
const Op kPlainAddRms = [](const auto& in) {
  const AddNorm made = reference::add_rms_norm(in[0], in[1], in[2], 1e-6);
  return at::cat({made.sum, made.normed}, -1);
};

// The forms that multiply before anything is rounded.
Op norm_of(RmsFactor factor) {
  return [=](const auto& in) { return rms_norm(in[0], in[1], {1e-6, factor}); };
}
Op plain_norm_of(RmsFactor factor) {
  return [=](const auto& in) { return reference::rms_norm(in[0], in[1], {1e-6, factor}); };
}
Op added_norm_of(RmsFactor factor) {
  return [=](const auto& in) {
    const AddNorm made = add_rms_norm(in[0], in[1], in[2], {1e-6, factor});
    return at::cat({made.sum, made.normed}, -1);
  };
}
Op plain_added_norm_of(RmsFactor factor) {
  return [=](const auto& in) {
    const AddNorm made = reference::add_rms_norm(in[0], in[1], in[2], {1e-6, factor});
    return at::cat({made.sum, made.normed}, -1);
  };
}
constexpr RmsFactor kWideFactors[] = {RmsFactor::wide_weight, RmsFactor::one_plus_weight};

TEST(RmsNorm, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t cols : {1, 7, 8, 31, 32, 33, 64, 1000}) {
    SCOPED_TRACE(cols);
    expect_matches(kRmsNorm, kPlainRmsNorm, {sample({3, cols}), sample({cols}, at::kDouble, 2)});
    expect_matches(kAddRms, kPlainAddRms,
                   {sample({3, cols}), sample({3, cols}, at::kDouble, 3), sample({cols}, at::kDouble, 2)});
    for (const RmsFactor factor : kWideFactors) {
      expect_matches(norm_of(factor), plain_norm_of(factor), {sample({3, cols}), sample({cols}, at::kDouble, 2)});
      expect_matches(added_norm_of(factor), plain_added_norm_of(factor),
                     {sample({3, cols}), sample({3, cols}, at::kDouble, 3), sample({cols}, at::kDouble, 2)});
    }
  }
}
TEST(RmsNorm, GradientsAreThoseOfDifferences) {
  gradcheck(kRmsNorm, {sample({2, 3, 5}), sample({5}, at::kDouble, 2)});
  gradcheck(kAddRms, {sample({3, 5}), sample({3, 5}, at::kDouble, 3), sample({5}, at::kDouble, 2)});
  for (const RmsFactor factor : kWideFactors) {
    gradcheck(norm_of(factor), {sample({2, 3, 5}), sample({5}, at::kDouble, 2)});
    gradcheck(added_norm_of(factor), {sample({3, 5}), sample({3, 5}, at::kDouble, 3), sample({5}, at::kDouble, 2)});
  }
}
TEST(RmsNorm, ManyRowsSumTheWeightsGradient) {
  expect_matches(kRmsNorm, kPlainRmsNorm, {sample({200, 16}), sample({16}, at::kDouble, 2)}, at::kFloat);
  for (const RmsFactor factor : kWideFactors)
    expect_matches(norm_of(factor), plain_norm_of(factor), {sample({200, 16}), sample({16}, at::kDouble, 2)},
                   at::kFloat);
}
// In bf16 there is nothing between 1 and 1 + 1/128: neither 1 + weight nor what it is multiplied with may be rounded
// before. OLMo 2's weights are near 1, and what they are multiplied with is not rounded either.
TEST(RmsNorm, WideFactorsAreRoundedOnce) {
  const Tensor x = sample({40, 64}, at::kBFloat16), wide = x.to(at::kFloat);
  const Tensor y = wide * (wide.square().mean(-1, true) + 1e-6).rsqrt();
  const Tensor small = sample({64}, at::kBFloat16, 2).mul(0.01), near_one = small + 1;
  const Tensor gemma = (y * (1 + small.to(at::kFloat))).to(at::kBFloat16),
               olmo = (y * near_one.to(at::kFloat)).to(at::kBFloat16);
  // A last bit may differ where LibTorch sums in another order.
  const auto share_of_others = [](const Tensor& a, const Tensor& b) {
    return a.ne(b).to(at::kFloat).mean().item<float>();
  };
  EXPECT_LT(share_of_others(rms_norm(x, small, {1e-6, RmsFactor::one_plus_weight}), gemma), 0.005);
  EXPECT_LT(share_of_others(rms_norm(x, near_one, {1e-6, RmsFactor::wide_weight}), olmo), 0.005);
  EXPECT_GT(share_of_others(rms_norm(x, near_one, 1e-6), olmo), 0.05);
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
