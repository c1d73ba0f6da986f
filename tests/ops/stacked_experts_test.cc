// Stacked experts against their meaning: every kernel level, gradients, experts without tokens, gradient sums.
#include "ops/stacked_experts.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

constexpr std::int64_t kStackHidden = 6, kStackInner = 5;

// Tokens, weights of their experts, then the stacks.
std::vector<Tensor> stack_inputs(std::int64_t tokens, std::int64_t per_token, std::int64_t experts) {
  return {sample({tokens, kStackHidden}),
          sample({tokens, per_token}, at::kDouble, 2).sigmoid(),
          sample({experts, kStackHidden, 2 * kStackInner}, at::kDouble, 3),
          sample({experts, 2 * kStackInner}, at::kDouble, 4),
          sample({experts, kStackInner, kStackHidden}, at::kDouble, 5),
          sample({experts, kStackHidden}, at::kDouble, 6)};
}

// Different experts for each token; never the last one.
Tensor stack_choice(std::int64_t tokens, std::int64_t per_token, std::int64_t experts) {
  return std::get<1>(at::topk(sample({tokens, experts - 1}, at::kDouble, 7), per_token, -1));
}

StackedExperts stack_of(const std::vector<Tensor>& in, GradientSum* gate_up = nullptr, GradientSum* down = nullptr) {
  return {in[2], in[3], in[4], in[5], gate_up, down, {.alpha = 1.3, .limit = 1.5}};  // many values are beyond that
}

Tensor in_wide(const Tensor& weight) { return weight.scalar_type() == at::kBFloat16 ? weight.to(at::kFloat) : weight; }

Op stacked_op(const Tensor& expert_NK, std::int64_t experts, bool meaning) {
  const Routing routing = route(expert_NK, experts);
  return [=](const std::vector<Tensor>& in) {
    return meaning ? reference::stacked_mlp(in[0], in_wide(in[1]), routing, stack_of(in))
                   : stacked_mlp(in[0], in_wide(in[1]), expert_NK, routing, stack_of(in));
  };
}

TEST(ClampedGate, IsCutOnItsSides) {
  const Tensor both = at::tensor({-9.0, -9.0, 9.0, 9.0, 0.5, 0.25, 2.0, -2.0}, at::kDouble).view({1, 8});
  const Tensor got = clamped_gate(both, {.alpha = 1, .limit = 2});
  const auto gate = [](double g) { return g / (1 + std::exp(-g)); };
  expect_close(got, at::tensor({gate(-9) * -1, gate(2) * 3, gate(0.5) * 1.25, gate(2) * -1}, at::kDouble).view({1, 4}),
               1e-12, "value");
  const Tensor d = clamped_gate_backward(at::ones({1, 4}, at::kDouble), both, {.alpha = 1, .limit = 2});
  // -9 of the gate is not cut, 9 is; both of the other are; what stands at the limit has its own.
  EXPECT_TRUE(d.eq(0).flatten().to(at::kLong).equal(at::tensor({0, 1, 1, 1, 0, 0, 0, 0}, at::kLong)));
}

TEST(ClampedGate, EveryKernelAgreesWithTheMeaning) {
  const ClampedGate gate{.alpha = 1.3, .limit = 1.5};
  for (const std::int64_t inner : {1, 7, 16, 33, 100})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
      each_level([&](const std::string& way) {
        const Tensor both = sample({9, 2 * inner}, type) * 2, d = sample({9, inner}, type, 2);
        const Tensor wide = both.to(at::kDouble).requires_grad_();
        const Tensor meaning = reference::clamped_gate(wide, gate);
        meaning.backward(d.to(at::kDouble));
        const std::string what = way + " inner " + std::to_string(inner);
        expect_close(clamped_gate(both, gate).to(at::kDouble), meaning.detach(), tolerance(type), what);
        expect_close(clamped_gate_backward(d, both, gate).to(at::kDouble), wide.grad(), tolerance(type), what);
      });
}
TEST(ClampedGate, KeepsWhatIsNotANumber) {
  each_level([&](const std::string& way) {
    for (const std::int64_t place : {0, 1, 78, 79}) {
      Tensor both = sample({1, 80}, at::kFloat);
      both[0][place] = NAN;
      const Tensor y = clamped_gate(both, {});
      EXPECT_TRUE(y[0][place / 2].isnan().item<bool>()) << way;
      EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 1) << way;
    }
  });
}

TEST(StackedExperts, EveryKernelAgreesWithTheMeaning) {
  for (const auto& [tokens, per_token] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 3}, {40, 1}, {37, 3}}) {
    const Tensor chosen = stack_choice(tokens, per_token, 6);
    expect_matches(stacked_op(chosen, 6, false), stacked_op(chosen, 6, true), stack_inputs(tokens, per_token, 6));
  }
}

TEST(StackedExperts, FewTokensWithoutAGraphAgreeWithTheMeaning) {
  const at::NoGradGuard no_graph;
  for (const std::int64_t tokens : {1, 5, 16})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      auto in = stack_inputs(tokens, 2, 4);
      for (Tensor& x : in) x = x.to(type);
      const Tensor chosen = stack_choice(tokens, 2, 4), meaning = stacked_op(chosen, 4, true)(in);
      at_each_kernel_level([&](const std::string& where) {
        expect_close(stacked_op(chosen, 4, false)(in), meaning, tolerance(type), where + " " + c10::toString(type));
      });
    }
}

TEST(StackedExperts, NoTokensGiveNone) {
  auto in = stack_inputs(0, 2, 4);
  for (Tensor& x : in) x.requires_grad_();
  const Tensor y = stacked_op(at::zeros({0, 2}, at::kLong), 4, false)(in);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, kStackHidden}));
  y.sum().backward();
  EXPECT_EQ(largest(in[2].grad()), 0);
}

TEST(StackedExperts, GradientsAreThoseOfDifferences) {
  gradcheck(stacked_op(stack_choice(5, 2, 4), 4, false), stack_inputs(5, 2, 4));
}

TEST(StackedExperts, AnyNumberOfThreadsGivesTheSameBits) {
  expect_same_bits_for_any_threads(stacked_op(stack_choice(50, 3, 6), 6, false), stack_inputs(50, 3, 6));
}

TEST(StackedExperts, WithoutAGraphGiveTheSameBits) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    auto in = stack_inputs(40, 2, 4);
    for (Tensor& x : in) x = x.to(type);
    const Op op = stacked_op(stack_choice(40, 2, 4), 4, false);
    const Tensor with = op(in);
    const at::NoGradGuard no_graph;
    EXPECT_TRUE(op(in).equal(with)) << type;
  }
}

TEST(StackedExperts, FrozenOnesGetNoGradient) {
  auto in = stack_inputs(20, 2, 4);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = in[i].to(at::kFloat).requires_grad_(i % 2 == 1);
  stacked_op(stack_choice(20, 2, 4), 4, false)(in).sum().backward();
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(in[i].grad().defined(), i % 2 == 1) << i;
}

// Two backward passes, in the second of which other experts have tokens: fp32 sums, zeros where nobody came.
TEST(StackedExperts, GradientSumsTakeWhatAutogradWouldGet) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto sum_type = type == at::kDouble ? at::kDouble : at::kFloat;
    auto in = stack_inputs(20, 2, 4), plain = in;
    for (auto* both : {&in, &plain})
      for (Tensor& x : *both) x = x.to(type).detach().clone().requires_grad_();
    GradientSum gate_up{at::full(in[2].sizes(), NAN, sum_type)}, down{at::full(in[4].sizes(), NAN, sum_type)};
    for (const Tensor& chosen : {stack_choice(20, 2, 4), stack_choice(20, 2, 3)}) {
      const Routing routing = route(chosen, 4);
      stacked_mlp(in[0], in_wide(in[1]), chosen, routing, stack_of(in, &gate_up, &down)).sum().backward();
      stacked_mlp(plain[0], in_wide(plain[1]), chosen, routing, stack_of(plain)).sum().backward();
    }
    for (const auto& [i, sum] : {std::pair{2, &gate_up}, {4, &down}}) {
      EXPECT_FALSE(in[i].grad().defined());
      EXPECT_TRUE(sum->full());
      EXPECT_EQ(largest(sum->sum[3]), 0);
      expect_close(sum->sum.to(at::kDouble), plain[i].grad().to(at::kDouble), type == at::kBFloat16 ? 0.02 : 1e-5,
                   "sum " + std::to_string(i));
    }
    for (const int i : {0, 1, 3, 5}) EXPECT_TRUE(in[i].grad().equal(plain[i].grad())) << i;
  }
}

}  // namespace
}  // namespace hone::ops::test
