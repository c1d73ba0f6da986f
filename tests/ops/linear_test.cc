// Products with weights against their meaning: one, several of one input, the gated MLP's, and gradient sums.
#include "ops/linear.h"

#include "hone/gradient_sum.h"
#include "ops/check.h"
#include "ops/rms_norm.h"

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

// One with two low ranks, one with none, one with one and a bias; behind a norm; and with a graph or without one.
TEST(Linear, LowRanksAreAddedToTheirProducts) {
  const Inputs inputs = {sample({33, 16}),
                         sample({20, 16}, at::kDouble, 2),
                         sample({5, 16}, at::kDouble, 3),
                         sample({9, 16}, at::kDouble, 4),
                         sample({9}, at::kDouble, 5),
                         sample({3, 16}, at::kDouble, 6),
                         sample({20, 3}, at::kDouble, 7),
                         sample({2, 16}, at::kDouble, 8),
                         sample({20, 2}, at::kDouble, 9),
                         sample({4, 16}, at::kDouble, 10),
                         sample({9, 4}, at::kDouble, 11),
                         sample({16}, at::kDouble, 12)};
  const auto weights = [](const Inputs& in) {
    std::vector<LinearWeight> made = {{in[1]}, {in[2]}, {in[3], in[4]}};
    made[0].low_ranks = {{in[5], in[6], 0.5}, {in[7], in[8], -2}};
    made[2].low_ranks = {{in[9], in[10], 1}};
    return made;
  };
  const auto all = [](const std::vector<Tensor>& made) { return at::cat(made, -1); };
  const auto plain = [&](const Tensor& x, const Inputs& in) {
    std::vector<Tensor> made;
    for (const LinearWeight& w : weights(in)) made.push_back(reference::linear(x, w));
    return all(made);
  };
  expect_matches([&](const Inputs& in) { return all(linears(in[0], weights(in))); },
                 [&](const Inputs& in) { return plain(in[0], in); }, inputs);
  expect_matches([&](const Inputs& in) { return all(norm_linears(in[0], {}, in[11], 1e-6, weights(in)).products); },
                 [&](const Inputs& in) { return plain(reference::rms_norm(in[0], in[11], 1e-6), in); }, inputs);
  const RmsNormForm form{1e-6, RmsFactor::one_plus_weight};
  expect_matches([&](const Inputs& in) { return all(norm_linears(in[0], {}, in[11], form, weights(in)).products); },
                 [&](const Inputs& in) { return plain(reference::rms_norm(in[0], in[11], form), in); }, inputs);
  for (const std::int64_t rows : {3, 33}) {
    Inputs few = inputs;
    few[0] = sample({rows, 16}, at::kDouble, 20);
    const auto without = [](const Op& op) {
      return [op](const Inputs& in) {
        const at::NoGradGuard no_grad;
        return op(in);
      };
    };
    expect_matches(without([&](const Inputs& in) { return all(linears(in[0], weights(in))); }),
                   without([&](const Inputs& in) { return plain(in[0], in); }), few);
  }
}

TEST(Linear, BelowAFrozenWeightOnlyItsLowRankLearns) {
  const Tensor x = sample({6, 8}, at::kFloat).requires_grad_(), w = sample({5, 8}, at::kFloat, 2),
               a = sample({2, 8}, at::kFloat, 3).requires_grad_(), b = sample({5, 2}, at::kFloat, 4).requires_grad_();
  GradientSum a_sum{at::full({2, 8}, NAN, at::kFloat)}, b_sum{at::full({5, 2}, NAN, at::kFloat)};
  const auto run = [&](GradientSum* to_a, GradientSum* to_b) {
    LinearWeight weight{w};
    weight.low_ranks = {{a, b, 0.5, to_a, to_b}};
    linear(x, weight).square().sum().backward();
  };
  run(nullptr, nullptr);
  const Tensor of_a = a.grad().clone(), of_b = b.grad().clone();
  run(&a_sum, &b_sum);
  EXPECT_TRUE(a_sum.full() && b_sum.full());
  expect_close(a_sum.sum, of_a, 1e-5, "A");
  expect_close(b_sum.sum, of_b, 1e-5, "B");
  expect_close(a.grad(), of_a, 0, "nothing more");
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

TEST(GatedLinear, ALowRankIsAddedToItsProduct) {
  const Inputs inputs = {sample({31, 18}),
                         sample({31, 18}, at::kDouble, 2),
                         sample({10, 18}, at::kDouble, 3),
                         sample({10}, at::kDouble, 4),
                         sample({3, 18}, at::kDouble, 5),
                         sample({10, 3}, at::kDouble, 6)};
  const auto weight = [](const Inputs& in) {
    LinearWeight made{in[2], in[3]};
    made.low_ranks = {{in[4], in[5], 0.5}};
    return made;
  };
  expect_matches([&](const Inputs& in) { return gated_linear(in[0], in[1], Activation::silu, weight(in)); },
                 [&](const Inputs& in) { return reference::gated_linear(in[0], in[1], Activation::silu, weight(in)); },
                 inputs);
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
