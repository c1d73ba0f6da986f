// Products in fp8 against torchao's emulation (tools/golden/golden_float8.py), with low ranks, and where gradients go.
#include "ops/float8.h"

#include "harness/files.h"
#include "hone/gradient_sum.h"
#include "ops/check.h"
#include "ops/float8_emulation.h"
#include "ops/linear.h"
#include "train/support.h"

namespace hone::ops::test {
namespace {

constexpr std::pair<Float8, const char*> kRecipes[] = {{Float8::tensorwise, "tensorwise"},
                                                       {Float8::rowwise, "rowwise"}};

// What differs is the order of sums in fp32, and what that makes of roundings to bf16.
void expect_as_torchao(const Tensor& got, const Tensor& expected, at::ScalarType type, const std::string& what) {
  expect_close(got.to(at::kDouble) / largest(expected), expected.to(at::kDouble) / largest(expected),
               type == at::kFloat ? 2e-6 : 0x1p-8, what);
}

struct Leaves {
  Tensor x, weight;
  std::unique_ptr<GradientSum> sum;
  Leaves(const std::map<std::string, Tensor>& golden, at::ScalarType type, bool summed)
      : x(golden.at("x").to(type, false, /*copy=*/true).requires_grad_()),
        weight(golden.at("weight").to(type, false, /*copy=*/true).requires_grad_()) {
    if (summed) sum = std::make_unique<GradientSum>(GradientSum{at::full(weight.sizes(), NAN, at::kFloat)});
  }
  LinearWeight in(Float8 recipe) const { return {weight, {}, sum.get(), nullptr, {}, recipe}; }
};

TEST(Float8, IsTorchaosForwardAndBack) {
  const auto golden = hone::test::read_tensors(hone::test::golden("train/float8.safetensors"));
  each_level([&](const std::string& way) {
    for (const auto& [recipe, name] : kRecipes)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const Leaves leaves(golden, type, /*summed=*/false);
        const Tensor y = linear(leaves.x, leaves.in(recipe));
        y.backward(golden.at("gradient").to(type));
        const std::string prefix = std::string(name) + (type == at::kFloat ? ".fp32." : ".bf16.");
        expect_as_torchao(y.detach(), golden.at(prefix + "y"), type, way + " " + prefix + "y");
        expect_as_torchao(leaves.x.grad(), golden.at(prefix + "dx"), type, way + " " + prefix + "dx");
        expect_as_torchao(leaves.weight.grad(), golden.at(prefix + "dweight"), type, way + " " + prefix + "dweight");
        EXPECT_GT(largest(at::linear(leaves.x, leaves.weight).detach().to(at::kFloat) - y.detach().to(at::kFloat)),
                  1e-3) << "that is not in fp8";
      }
  });
}

TEST(Float8, GradientsOfWeightsAreSummedInFp32) {
  const auto golden = hone::test::read_tensors(hone::test::golden("train/float8.safetensors"));
  for (const auto& [recipe, name] : kRecipes) {
    const Leaves leaves(golden, at::kBFloat16, /*summed=*/true);
    for (int pass = 0; pass < 2; ++pass)
      linear(leaves.x, leaves.in(recipe)).backward(golden.at("gradient").to(at::kBFloat16));
    EXPECT_FALSE(leaves.weight.grad().defined());
    ASSERT_TRUE(leaves.sum->full());
    expect_as_torchao(leaves.sum->sum / 2, golden.at(std::string(name) + ".fp32.dweight"), at::kFloat, name);
  }
}

// The products of one input, one of which stays in bf16, with its low rank in bf16 in either case: all rounded once.
TEST(Float8, BesideOthersAndLowRanks) {
  const Tensor x = sample({21, 32}, at::kBFloat16).requires_grad_();
  const Tensor w = sample({48, 32}, at::kBFloat16, 2), other = sample({16, 32}, at::kBFloat16, 3);
  const Tensor a = sample({4, 32}, at::kBFloat16, 4).requires_grad_(), b = sample({48, 4}, at::kBFloat16, 5);
  const auto weights = [&](Float8 recipe) {
    LinearWeight first{w, {}, nullptr, nullptr, {}, recipe};
    first.low_ranks.push_back({a, b, 0.5});
    return std::vector<LinearWeight>{first, {other}};
  };
  const auto wide = [](const Tensor& t) { return t.detach().to(at::kFloat); };
  const auto in_float8 = [](const Tensor& t, at::ScalarType type, bool by_rows, bool turned) {
    const Tensor back = from_float8(emulated_to_float8(t.detach(), {type, by_rows}, turned));
    return turned ? back.t() : back;
  };
  for (const auto& [recipe, name] : kRecipes) {
    const bool by_rows = recipe == Float8::rowwise;
    const std::vector<Tensor> y = linears(x, weights(recipe));
    const Tensor inner = (wide(x).mm(wide(a).t()) * 0.5).to(at::kBFloat16);
    const Tensor expected = in_float8(x, at::kFloat8_e4m3fn, by_rows, false)
                                .mm(in_float8(w, at::kFloat8_e4m3fn, by_rows, false).t()) +
                            wide(inner).mm(wide(b).t());
    expect_close(wide(y[0]), expected, 0x1p-8, std::string(name) + " y");
    EXPECT_TRUE(y[1].equal(linear(x, {other}))) << "what is not asked for is in fp8";
    const Tensor dy = sample({21, 48}, at::kBFloat16, 6), dz = sample({21, 16}, at::kBFloat16, 7);
    ((y[0] * dy).sum() + (y[1] * dz).sum()).backward();
    const Tensor dinner = (wide(dy).mm(wide(b)) * 0.5).to(at::kBFloat16);
    const Tensor dx = in_float8(dy, by_rows ? at::kFloat8_e4m3fn : at::kFloat8_e5m2, by_rows, false)
                          .mm(in_float8(w, at::kFloat8_e4m3fn, by_rows, true)) +
                      wide(dinner).mm(wide(a)) + wide(dz).mm(wide(other));
    expect_close(wide(x.grad()), dx, 0x1p-8, std::string(name) + " dx");
    expect_close(wide(a.grad()), wide(dinner).t().mm(wide(x)), 0x1p-7, std::string(name) + " dA");
    x.mutable_grad() = Tensor(), a.mutable_grad() = Tensor();
  }
}

// Checkpointed blocks rely on it, however few rows they have.
TEST(Float8, WithoutAGraphGivesTheSameBits) {
  for (const auto& [recipe, name] : kRecipes)
    for (const std::int64_t rows : {1, 5, 40}) {
      const Tensor x = sample({rows, 32}, at::kBFloat16).requires_grad_();
      const auto weight = [&](std::int64_t out, std::int64_t in, std::uint64_t seed) {
        return LinearWeight{sample({out, in}, at::kBFloat16, seed), {}, nullptr, nullptr, {}, recipe};
      };
      const GatedMlpWeights mlp{weight(48, 32, 2), weight(48, 32, 3), weight(32, 48, 4)};
      const Tensor with = gated_mlp(x, mlp, Activation::silu);
      const at::NoGradGuard no_graph;
      EXPECT_TRUE(gated_mlp(x, mlp, Activation::silu).equal(with)) << name << rows;
    }
}

TEST(Float8, AnyNumberOfThreadsGivesTheSameBits) {
  for (const auto& [recipe, name] : kRecipes)
    expect_same_bits_for_any_threads(
        [r = recipe](const std::vector<Tensor>& in) { return linear(in[0], {in[1], {}, nullptr, nullptr, {}, r}); },
        {sample({50, 64}), sample({32, 64}, at::kDouble, 2)});
}

}  // namespace
}  // namespace hone::ops::test
