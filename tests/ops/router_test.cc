// A router's choice: the device's table beside its composed meaning, gradients, and how evenly experts are used.
#include "ops/router.h"

#include "ops/backend.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

struct Made {
  Choice choice;
  Tensor dlogits;
};
// weight, sum: whether anything goes back through them.
Made choose(const Tensor& logits, const ChoiceOptions& options, bool weight, bool sum, bool by_reference) {
  const Tensor x = logits.detach().clone().requires_grad_();
  const Choice made = by_reference ? reference::choose_experts(x, options, true) : choose_experts(x, options, true);
  Tensor loss = at::zeros({}, made.weight_NK.options());
  if (weight) loss = loss + (made.weight_NK * sample(made.weight_NK.sizes(), made.weight_NK.scalar_type(), 5)).sum();
  if (sum) loss = loss + made.probability_E.dot(sample(made.probability_E.sizes(), loss.scalar_type(), 6));
  loss.backward();
  return {made, x.grad()};
}

TEST(Router, IsItsMeaning) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const auto& [experts, per_token] : {std::pair(1, 1), {5, 2}, {8, 8}, {60, 4}})
      for (const bool normalise : {false, true})
        for (const auto& [weight, sum] : {std::pair(true, true), {true, false}, {false, true}}) {
          const Tensor logits = sample({13, experts}, type) * 2;
          const ChoiceOptions options{per_token, normalise};
          const Made got = choose(logits, options, weight, sum, false);
          const Made expected = choose(logits, options, weight, sum, true);
          const double allowed = type == at::kDouble ? 1e-12 : type == at::kFloat ? 2e-6 : 0x1p-8;
          const std::string what = std::to_string(experts) + " experts " + std::to_string(normalise);
          EXPECT_TRUE(got.choice.expert_NK.equal(expected.choice.expert_NK)) << what;
          EXPECT_EQ(got.choice.weight_NK.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
          expect_close(got.choice.weight_NK, expected.choice.weight_NK, std::min(allowed, 2e-6), what + ", weights");
          expect_close(got.choice.probability_E, expected.choice.probability_E, std::min(allowed, 2e-6),
                       what + ", sum");
          ASSERT_EQ(got.dlogits.scalar_type(), type);
          expect_close(got.dlogits, expected.dlogits, allowed, what + ", gradient");
        }
}
TEST(Router, NothingGoesBackFromExpertsAlone) {
  const Tensor logits = sample({3, 4}, at::kFloat).requires_grad_();
  const Choice made = choose_experts(logits, {2, true}, false);
  EXPECT_FALSE(made.expert_NK.requires_grad());
  EXPECT_FALSE(made.probability_E.defined());
}
TEST(Router, NoTokens) {
  const Choice made = choose_experts(at::empty({0, 4}), {2, true}, true);
  EXPECT_EQ(made.expert_NK.sizes(), (std::vector<std::int64_t>{0, 2}));
  EXPECT_TRUE(made.probability_E.equal(at::zeros({4})));
}
TEST(Router, Spread) {
  // Shares 1/2, 0, 1/2 of three experts; an even one would be 1/3.
  const Tensor got = measure_spread(at::tensor({0, 4, 4, 8}, at::kLong), 10);
  expect_close(got, at::tensor({15.0, 10 * std::log(2.0), 10.0}, at::kDouble), 1e-12, "spread");
}

}  // namespace
}  // namespace hone::ops::test
