// A router's choice: the kernels beside plain ATen.
#include <ATen/OpMathType.h>

#include "cuda/kernel_check.h"

namespace hone::ops::test {
namespace {

struct RouterSizes {
  std::int64_t tokens, experts, per_token;
};
constexpr RouterSizes kSizes[] = {{1, 1, 1},     {17, 5, 2},  {9, 32, 8}, {20, 33, 3},
                                  {11, 128, 32}, {5, 512, 6}, {3, 40, 1}};

std::string named(const RouterSizes& sizes, bool normalise) {
  return std::to_string(sizes.experts) + " experts, " + std::to_string(sizes.per_token) + " of a token" +
         (normalise ? ", normalised" : "");
}

// The largest forty are different, also in 16 bits.
Tensor logits_of(const RouterSizes& sizes, at::ScalarType type) {
  const Tensor order = at::argsort(sample({sizes.tokens, sizes.experts}, at::kDouble));
  return ((order - sizes.experts + 40).clamp_min(0).to(at::kDouble) / 16 - 2).to(type);
}

TEST(CudaRouter, ChoosesTheLikeliest) {
  for (const at::ScalarType type : kAllTypes)
    for (const RouterSizes& sizes : kSizes)
      for (const bool normalise : {false, true}) {
        const Tensor logits = logits_of(sizes, type);
        const auto wide = at::toOpMathType(type);
        expect_as_reference(
            [&](const Backend& table) {
              const RoutedChoice made = table.routed.choose(logits, {sizes.per_token, normalise});
              EXPECT_EQ(made.weight_NK.scalar_type(), wide);
              return Results{made.probability_NE, made.weight_NK, made.expert_NK};
            },
            type, named(sizes, normalise), once_rounded(wide));
      }
}
TEST(CudaRouter, Gradients) {
  for (const at::ScalarType type : kAllTypes)
    for (const RouterSizes& sizes : kSizes)
      for (const bool normalise : {false, true})
        for (const auto& [of_weight, of_sum] : {std::pair(true, true), {true, false}, {false, true}}) {
          const auto wide = at::toOpMathType(type);
          const ChoiceOptions options{sizes.per_token, normalise};
          const RoutedChoice made = reference_backend().routed.choose(logits_of(sizes, type), options);
          const Tensor dweight = of_weight ? sample({sizes.tokens, sizes.per_token}, wide, 2) : Tensor();
          const Tensor dsum = of_sum ? sample({sizes.experts}, wide, 3) : Tensor();
          expect_as_reference(
              [&](const Backend& table) {
                return Results{table.routed.choose_backward(made, options, dweight, dsum, type)};
              },
              type, named(sizes, normalise), once_rounded(type));
        }
}
TEST(CudaRouter, OfEquallyLikelyOnesTheFirst) {
  const Tensor logits = at::tensor({1, 2, 2, 1, 2, 1}, at::kFloat).view({1, 6});
  const auto primitive = [&](const Backend& table) {
    return Results{table.routed.choose(logits, {5, false}).expert_NK};
  };
  EXPECT_TRUE(emulated_results(primitive, "ties")[0].equal(at::tensor({1, 2, 4, 0, 3}, at::kLong).view({1, 5})));
}
TEST(CudaRouter, WhatIsNotANumberStillHasExperts) {
  Tensor logits = sample({3, 40}, at::kFloat);
  logits[1][7] = NAN;
  const auto primitive = [&](const Backend& table) {
    const RoutedChoice made = table.routed.choose(logits, {3, true});
    return Results{made.expert_NK, made.weight_NK};
  };
  const Results got = emulated_results(primitive, "not a number");
  EXPECT_TRUE(got[0][1].equal(at::tensor({0, 1, 2}, at::kLong))) << got[0];
  EXPECT_TRUE(got[1].isnan().any(1).to(at::kLong).equal(at::tensor({0, 1, 0}, at::kLong)));
}
TEST(CudaRouter, MoreExpertsThanItsWarpsTakeAreTheLibrarys) {
  const std::int64_t before = emulated_launches();
  const Tensor logits = sample({2, 600}, at::kFloat);
  const RoutedChoice made = emulated_backend().routed.choose(logits, {2, true});
  emulated_backend().routed.choose_backward(made, {2, true}, made.weight_NK, {}, at::kFloat);
  EXPECT_EQ(emulated_launches(), before);
}
TEST(CudaRouter, Spread) {
  for (const std::vector<std::int64_t>& begin :
       {std::vector<std::int64_t>{0, 7}, {0, 0, 5, 5, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8}})
    expect_as_reference(
        [&](const Backend& table) { return Results{table.routed.spread(at::tensor(begin, at::kLong), 3.5)}; },
        at::kDouble, std::to_string(begin.size() - 1) + " experts");
}

}  // namespace
}  // namespace hone::ops::test
