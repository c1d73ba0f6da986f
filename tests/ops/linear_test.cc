// Products with weights against their meaning: one, several of one input, the gated MLP's, and gradient sums.
#include "ops/linear.h"

#include "hone/gradient_sum.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

using Inputs = std::vector<Tensor>;

TEST(Linear, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t rows : {1, 5, 40})
    for (const bool bias : {false, true}) {
      const auto weight = [=](const Inputs& in) { return LinearWeight{in[1], bias ? in[2] : Tensor()}; };
      Inputs inputs = {sample({2, rows, 9}), sample({7, 9}, at::kDouble, 2)};
      if (bias) inputs.push_back(sample({7}, at::kDouble, 3));
      expect_matches([&](const Inputs& in) { return linear(in[0], weight(in)); },
                     [&](const Inputs& in) { return reference::linear(in[0], weight(in)); }, inputs);
    }
}

TEST(Linear, SeveralOfOneInput) {
  const Inputs inputs = {sample({33, 16}), sample({20, 16}, at::kDouble, 2), sample({5, 16}, at::kDouble, 3),
                         sample({5}, at::kDouble, 4), sample({5, 16}, at::kDouble, 5)};
  const auto all = [](const std::vector<Tensor>& made) { return at::cat(made, -1); };
  expect_matches([&](const Inputs& in) { return all(linears(in[0], {{in[1], {}}, {in[2], in[3]}, {in[4], {}}})); },
                 [&](const Inputs& in) {
                   return all({at::linear(in[0], in[1]), at::linear(in[0], in[2], in[3]), at::linear(in[0], in[4])});
                 },
                 inputs);
}

TEST(Linear, AnOutputThatNobodyUsesHasNoGradient) {
  const Tensor x = sample({4, 6}, at::kFloat).requires_grad_(), w = sample({3, 6}, at::kFloat, 2).requires_grad_(),
               unused = sample({3, 6}, at::kFloat, 3).requires_grad_();
  linears(x, {{w, {}}, {unused, {}}})[0].sum().backward();
  EXPECT_TRUE(w.grad().defined());
  EXPECT_FALSE(unused.grad().defined());
  expect_close(x.grad(), w.sum(0).expand({4, 6}), 1e-6, "x");
}

TEST(GatedLinear, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t rows : {1, 31}) {
    const Inputs inputs = {sample({rows, 18}), sample({rows, 18}, at::kDouble, 2), sample({10, 18}, at::kDouble, 3),
                           sample({10}, at::kDouble, 4)};
    expect_matches(
        [](const Inputs& in) { return gated_linear(in[0], in[1], Activation::silu, {in[2], in[3]}); },
        [](const Inputs& in) { return reference::gated_linear(in[0], in[1], Activation::silu, {in[2], in[3]}); },
        inputs);
  }
}

TEST(GatedLinear, GradientsAreThoseOfDifferences) {
  gradcheck([](const Inputs& in) { return gated_linear(in[0], in[1], Activation::gelu_tanh, {in[2], {}}); },
            {sample({3, 4}), sample({3, 4}, at::kDouble, 2), sample({5, 4}, at::kDouble, 3)});
}

// Two backward passes: the sum is the sum of what autograd gives, and autograd itself gets nothing.
TEST(GradientSum, TakesTheWeightsGradient) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
    const Tensor w = sample({24, 16}).to(type).requires_grad_(), plain = w.detach().clone().requires_grad_();
    GradientSum sum{at::full({24, 16}, NAN, wide)};
    for (int seed = 1; seed < 3; ++seed) {
      const Tensor x = sample({30, 16}, at::kDouble, seed).to(type), gate = sample({30, 16}, at::kDouble, 7).to(type);
      (linear(x, {w, {}, &sum}).sum() + gated_linear(gate, x, Activation::silu, {w, {}, &sum}).sum()).backward();
      (linear(x, {plain, {}}).sum() + gated_linear(gate, x, Activation::silu, {plain, {}}).sum()).backward();
    }
    EXPECT_FALSE(w.grad().defined());
    EXPECT_TRUE(sum.full());
    expect_close(sum.sum.to(at::kDouble), plain.grad().to(at::kDouble), type == at::kBFloat16 ? 0.02 : 1e-5, "sum");
  }
}

}  // namespace
}  // namespace hone::ops::test
