// Routed experts against their meaning: every kernel level, gradients, experts without tokens, gradient sums.
#include "ops/experts.h"

#include "hone/gradient_sum.h"
#include "ops/check.h"

namespace hone::ops::test {
namespace {

using Inputs = std::vector<Tensor>;

constexpr std::int64_t kHidden = 6, kInner = 5;

// Tokens, weights of their experts, then each expert's gate, up and down.
Inputs inputs_of(std::int64_t tokens, std::int64_t per_token, std::int64_t experts) {
  Inputs inputs{sample({tokens, kHidden}), sample({tokens, per_token}, at::kDouble, 2).sigmoid()};
  for (std::int64_t e = 0; e < experts; ++e) {
    inputs.push_back(sample({kInner, kHidden}, at::kDouble, 10 + e));
    inputs.push_back(sample({kInner, kHidden}, at::kDouble, 50 + e));
    inputs.push_back(sample({kHidden, kInner}, at::kDouble, 90 + e));
  }
  return inputs;
}

// Different experts for each token; never the last one.
Tensor chosen(std::int64_t tokens, std::int64_t per_token, std::int64_t experts) {
  return std::get<1>(at::topk(sample({tokens, experts - 1}, at::kDouble, 7), per_token, -1));
}

std::vector<GatedMlpWeights> weights_of(const Inputs& in, std::vector<GradientSum>* sums = nullptr) {
  std::vector<GatedMlpWeights> experts;
  const auto weight = [&](std::size_t i) { return LinearWeight{in[i], {}, sums ? &sums->at(i - 2) : nullptr}; };
  for (std::size_t i = 2; i < in.size(); i += 3) experts.push_back({weight(i), weight(i + 1), weight(i + 2)});
  return experts;
}

// The weights of a token's experts come in the type that sums are made in.
Tensor wide_weight(const Tensor& weight) {
  return weight.scalar_type() == at::kBFloat16 ? weight.to(at::kFloat) : weight;
}

Op op_of(const Routing& routing, Activation activation, bool meaning) {
  const auto run = meaning ? reference::routed_mlp : routed_mlp;
  return [=](const Inputs& in) { return run(in[0], wide_weight(in[1]), routing, weights_of(in), activation); };
}

TEST(Experts, SlotsAreSortedByExpertAndToken) {
  const Routing routing = route(at::tensor({2, 0, 2, 3, 0, 2}, at::kLong).view({3, 2}), 5);
  EXPECT_TRUE(routing.slot_S.equal(at::tensor({1, 4, 0, 2, 5, 3}, at::kLong)));
  EXPECT_TRUE(routing.place_NK.equal(at::tensor({2, 0, 3, 5, 1, 4}, at::kLong).view({3, 2})));
  EXPECT_EQ(routing.slots.known_counts(), (std::vector<std::int64_t>{2, 0, 3, 1, 0}));
  EXPECT_TRUE(routing.slots.begin().equal(at::tensor({0, 2, 2, 5, 6, 6}, at::kLong)));
}

// The meaning itself, token by token.
TEST(Experts, AreSumsOfMlpsByWeight) {
  const Inputs in = inputs_of(4, 2, 3);
  const Tensor expert_NK = chosen(4, 2, 3);
  std::vector<Tensor> rows;
  for (std::int64_t n = 0; n < 4; ++n) {
    Tensor sum = at::zeros({kHidden}, at::kDouble);
    for (std::int64_t k = 0; k < 2; ++k) {
      const std::size_t e = 2 + 3 * expert_NK[n][k].item<std::int64_t>();
      const Tensor inner = at::silu(in[e].mv(in[0][n])) * in[e + 1].mv(in[0][n]);
      sum = sum + in[1][n][k] * in[e + 2].mv(inner);
    }
    rows.push_back(sum);
  }
  const Tensor got = op_of(route(expert_NK, 3), Activation::silu, /*meaning=*/true)(in);
  expect_close(got, at::stack(rows), 1e-12, "meaning");
}

TEST(Experts, EveryKernelAgreesWithTheMeaning) {
  for (const auto& [tokens, per_token] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 3}, {40, 1}, {37, 3}})
    for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
      const Routing routing = route(chosen(tokens, per_token, 6), 6);
      expect_matches(op_of(routing, activation, false), op_of(routing, activation, true),
                     inputs_of(tokens, per_token, 6));
    }
}

TEST(Experts, WithoutAGraphGiveTheSame) {
  for (const std::int64_t tokens : {1, 5, 40})
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      Inputs in = inputs_of(tokens, 2, 4);
      for (Tensor& x : in) x = x.to(type);
      const Op op = op_of(route(chosen(tokens, 2, 4), 4), Activation::silu, false);
      const Tensor with = op(in);
      const at::NoGradGuard no_graph;
      if (tokens > 16) {  // checkpointed blocks rely on it
        EXPECT_TRUE(op(in).equal(with)) << type;
      }
      expect_close(op(in), with, tolerance(type), "without a graph");
    }
}

TEST(Experts, GradientsAreThoseOfDifferences) {
  gradcheck(op_of(route(chosen(5, 2, 4), 4), Activation::silu, false), inputs_of(5, 2, 4));
}

TEST(Experts, AnyNumberOfThreadsGivesTheSameBits) {
  expect_same_bits_for_any_threads(op_of(route(chosen(50, 3, 6), 6), Activation::silu, false), inputs_of(50, 3, 6));
}

TEST(Experts, WithoutTokensHaveAGradientOfZeros) {
  for (const bool meaning : {false, true}) {
    Inputs in = inputs_of(8, 2, 4);
    for (Tensor& x : in) x = x.to(at::kFloat).requires_grad_();
    op_of(route(chosen(8, 2, 4), 4), Activation::silu, meaning)(in).sum().backward();
    for (std::size_t i = 2; i < in.size(); ++i) {
      ASSERT_TRUE(in[i].grad().defined()) << i;
      EXPECT_EQ(largest(in[i].grad()) == 0, i >= in.size() - 3) << i;
    }
  }
}

TEST(Experts, FrozenWeightsGetNoGradient) {
  Inputs in = inputs_of(20, 2, 4);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = in[i].to(at::kFloat).requires_grad_(i % 2 == 1);
  op_of(route(chosen(20, 2, 4), 4), Activation::silu, false)(in).sum().backward();
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(in[i].grad().defined(), i % 2 == 1) << i;
}

// Two backward passes, in the second of which other experts have tokens: fp32 sums, zeros where nobody came.
TEST(Experts, GradientSumsTakeWhatAutogradWouldGet) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto sum_type = type == at::kDouble ? at::kDouble : at::kFloat;
    Inputs in = inputs_of(20, 2, 4), plain = inputs_of(20, 2, 4);
    for (Inputs* both : {&in, &plain})
      for (Tensor& x : *both) x = x.to(type).requires_grad_();
    std::vector<GradientSum> sums;
    for (std::size_t i = 2; i < in.size(); ++i) sums.push_back({at::full(in[i].sizes(), NAN, sum_type)});
    for (const Tensor& expert_NK : {chosen(20, 2, 4), chosen(20, 2, 3)}) {
      const Routing routing = route(expert_NK, 4);
      routed_mlp(in[0], wide_weight(in[1]), routing, weights_of(in, &sums), Activation::silu).sum().backward();
      routed_mlp(plain[0], wide_weight(plain[1]), routing, weights_of(plain), Activation::silu).sum().backward();
    }
    for (std::size_t i = 2; i < in.size(); ++i) {
      EXPECT_FALSE(in[i].grad().defined());
      EXPECT_TRUE(sums[i - 2].full());
      expect_close(sums[i - 2].sum.to(at::kDouble), plain[i].grad().to(at::kDouble),
                   type == at::kBFloat16 ? 0.02 : 1e-5, "sum " + std::to_string(i));
    }
    EXPECT_TRUE(in[0].grad().equal(plain[0].grad()));
    EXPECT_TRUE(in[1].grad().equal(plain[1].grad()));
  }
}

}  // namespace
}  // namespace hone::ops::test
