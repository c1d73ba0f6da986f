// What the headers promise of sums, at every kernel level: made in fp32, rounded at the end if at all.
#include <algorithm>

#include <fmt/format.h>

#include "hone/gradient_sum.h"
#include "ops/attention.h"
#include "ops/check.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/rms_norm.h"

namespace hone::ops::test {
namespace {

template <class Work>
void at_every_level(Work&& work) {
  each_level([&](const std::string& way) {
    SCOPED_TRACE(way);
    work();
  });
}
template <class Work>
void without_kernels(Work&& work) {
  SCOPED_TRACE("no kernels");
  const LevelScope scope(Level::reference);
  work();
}

Tensor bf16_sample(at::IntArrayRef shape, std::uint64_t seed) { return sample(shape, at::kBFloat16, seed); }
Tensor in_double(const Tensor& x) { return x.detach().to(at::kDouble); }

// bf16 has 2^-9 of a number.
void expect_unrounded(const Tensor& sum, const Tensor& exact, const char* what) {
  EXPECT_EQ(sum.scalar_type(), at::kFloat);
  expect_close(in_double(sum), exact, 2e-6, what);
}

TEST(Promises, AProductOfBf16FactorsIsAddedUnrounded) {
  for (const bool turned : {false, true})
    for (const std::int64_t depth : {1, 3, 64, 700}) {
      const Tensor a = turned ? bf16_sample({depth, 37}, 1).t() : bf16_sample({37, depth}, 1);
      const Tensor b = turned ? bf16_sample({50, depth}, 2).t() : bf16_sample({depth, 50}, 2);
      const Tensor exact = at::mm(in_double(a), in_double(b));
      const auto check = [&] {
        Tensor sum = at::full({37, 50}, NAN, at::kFloat);
        matmul_into(sum, {{a, b}});
        expect_unrounded(sum, exact, "written");
        matmul_into(sum, {{a, b}, {a, b}}, /*add=*/true);
        expect_unrounded(sum, 3 * exact, "added");
      };
      without_kernels(check);
      at_every_level(check);
    }
}

// 256 + 1 + 1: in bf16 256 + 1 is 256.
TEST(Promises, SeveralProductsAreSummedBeforeTheyAreRounded) {
  const auto one = [](double value) {
    return Factors{at::full({3, 1}, value, at::kBFloat16), at::ones({1, 5}, at::kBFloat16)};
  };
  const auto check = [&] {
    Tensor out = at::empty({3, 5}, at::kBFloat16);
    matmul_into(out, {one(256), one(1), one(1)});
    EXPECT_TRUE(at::equal(in_double(out), at::full({3, 5}, 258.0, at::kDouble)));
  };
  without_kernels(check);
  at_every_level(check);
}

TEST(Promises, TheInputsGradientIsSummedOverTheWeightsBeforeItIsRounded) {
  at_every_level([] {
    const Tensor x = at::zeros({4, 6}, at::kBFloat16).requires_grad_();
    const auto weight = [](double value) { return LinearWeight{at::full({1, 6}, value, at::kBFloat16), {}}; };
    const auto made = linears(x, {weight(256), weight(1), weight(1)});
    at::cat(made, -1).sum().backward();
    EXPECT_TRUE(at::equal(in_double(x.grad()), at::full({4, 6}, 258.0, at::kDouble)));
  });
}

// Weight, bias and norm of two backward passes.
TEST(Promises, GradientsOfWeightsBiasesAndNormsAreSummedUnrounded) {
  at_every_level([] {
    const Tensor w = bf16_sample({24, 16}, 1).requires_grad_(), bias = bf16_sample({24}, 2).requires_grad_(),
                 norm = at::ones({16}, at::kBFloat16).requires_grad_();
    GradientSum w_sum{at::empty({24, 16}, at::kFloat)}, bias_sum{at::empty({24}, at::kFloat)},
        norm_sum{at::empty({16}, at::kFloat)};
    Tensor w_exact, bias_exact, norm_exact;
    const auto add = [](Tensor& to, const Tensor& more) { to = to.defined() ? to + more : more; };
    for (int pass = 0; pass < 2; ++pass) {
      const Tensor x = bf16_sample({300, 16}, 10 + pass), dy = bf16_sample({300, 24}, 20 + pass),
                   dnorm = bf16_sample({300, 16}, 30 + pass);
      linear(x, {w, bias, &w_sum, &bias_sum}).backward(dy);
      const Tensor normed = rms_norm(x, norm, 1e-6, &norm_sum);  // the weight is one: what it is multiplied with
      normed.backward(dnorm);
      add(w_exact, at::mm(in_double(dy).t(), in_double(x)));
      add(bias_exact, in_double(dy).sum(0));
      add(norm_exact, (in_double(dnorm) * in_double(normed)).sum(0));
    }
    expect_unrounded(w_sum.sum, w_exact, "weight");
    expect_unrounded(bias_sum.sum, bias_exact, "bias");
    expect_unrounded(norm_sum.sum, norm_exact, "norm");
    for (const Tensor& leaf : {w, bias, norm}) EXPECT_FALSE(leaf.grad().defined());
  });
}

TEST(Promises, GradientsOfLayerNormsAreSummedUnrounded) {
  at_every_level([] {
    const Tensor weight = at::ones({16}, at::kBFloat16).requires_grad_(),
                 bias = at::zeros({16}, at::kBFloat16).requires_grad_();
    GradientSum weight_sum{at::empty({16}, at::kFloat)}, bias_sum{at::empty({16}, at::kFloat)};
    Tensor weight_exact = at::zeros({16}, at::kDouble), bias_exact = at::zeros({16}, at::kDouble);
    for (int pass = 0; pass < 2; ++pass) {
      const Tensor x = bf16_sample({300, 16}, 10 + pass), residual = bf16_sample({300, 16}, 20 + pass),
                   dy = bf16_sample({300, 16}, 30 + pass);
      const LayerNormSums sums{&weight_sum, &bias_sum};
      const auto added = add_layer_norm(x, residual, weight, bias, 1e-6, sums);
      added.normed.backward(dy);
      layer_norm(x, weight, bias, 1e-6, sums).backward(dy);
      for (const Tensor& input : {added.sum.detach(), x})
        weight_exact += (in_double(dy) * at::layer_norm(in_double(input), {16}, {}, {}, 1e-6)).sum(0);
      bias_exact += 2 * in_double(dy).sum(0);
    }
    expect_unrounded(weight_sum.sum, weight_exact, "weight");
    expect_unrounded(bias_sum.sum, bias_exact, "bias");
    for (const Tensor& leaf : {weight, bias}) EXPECT_FALSE(leaf.grad().defined());
  });
}

TEST(Promises, GradientsOfANormBeforeProductsAndOfAGatedProductAreSummedUnrounded) {
  at_every_level([] {
    const Tensor norm = at::ones({16}, at::kBFloat16).requires_grad_(),
                 same = at::eye(16).to(at::kBFloat16).requires_grad_(),
                 down = bf16_sample({24, 16}, 3).requires_grad_(),
                 bias = at::zeros({24}, at::kBFloat16).requires_grad_();
    GradientSum norm_sum{at::empty({16}, at::kFloat)}, down_sum{at::empty({24, 16}, at::kFloat)},
        bias_sum{at::empty({24}, at::kFloat)};
    const Tensor x = bf16_sample({300, 16}, 4), dy = bf16_sample({300, 16}, 5), dz = bf16_sample({300, 24}, 6);
    const Tensor y = norm_linears(x, {}, norm, 1e-6, {{same, {}}}, &norm_sum).products[0];
    y.backward(dy);
    expect_unrounded(norm_sum.sum, (in_double(dy) * in_double(y)).sum(0), "norm");
    const Tensor up = at::ones({300, 16}, at::kBFloat16), gate = x.relu();
    gated_linear(gate, up, Activation::relu, {down, bias, &down_sum, &bias_sum}).backward(dz);
    expect_unrounded(down_sum.sum, at::mm(in_double(dz).t(), in_double(gate)), "down");
    expect_unrounded(bias_sum.sum, in_double(dz).sum(0), "down's bias");
  });
}

// 300 times the same token: a sum in bf16 would stop at 256.
TEST(Promises, AnEmbeddingsGradientIsSummedUnrounded) {
  at_every_level([] {
    const Tensor table = at::zeros({3, 8}, at::kBFloat16).requires_grad_();
    GradientSum sum{at::empty({3, 8}, at::kFloat)};
    for (int pass = 0; pass < 2; ++pass) embedding(table, at::full({300}, 2, at::kLong), -1, &sum).sum().backward();
    EXPECT_EQ(sum.sum[2].min().item<double>(), 600);
    EXPECT_EQ(sum.sum[1].max().item<double>(), 0);
  });
}

// The head's gradient is made in chunks of tokens, here in one: none of it may have been through bf16.
TEST(Promises, TheHeadsGradientIsSummedUnrounded) {
  at_every_level([] {
    const Tensor hidden = bf16_sample({200, 16}, 1).requires_grad_(), head = bf16_sample({40, 16}, 2).requires_grad_();
    GradientSum sum{at::empty({40, 16}, at::kFloat)};
    const Tensor labels = at::arange(200, at::kLong).remainder(40);
    linear_cross_entropy(hidden, head, labels, {}, {.head_sum = &sum}).backward();
    const Tensor rounded = sum.sum.to(at::kBFloat16).to(at::kFloat);
    EXPECT_GT(sum.sum.ne(rounded).sum().item<std::int64_t>(), sum.sum.numel() / 2);
  });
}

// The value and gradients by tiles are as near to those in fp64 as by dot products of pairs.
void expect_tiles_as_exact(const Op& op, std::vector<Tensor> inputs) {
  for (Tensor& x : inputs) x = x.to(at::kBFloat16);
  std::vector<Tensor> wide;
  for (const Tensor& x : inputs) wide.push_back(x.to(at::kDouble));
  const Result exact = value_and_gradients(op, wide);
  const auto errors = [&] {
    const Result got = value_and_gradients(op, inputs);
    std::vector<double> made;
    const auto add = [&](const Tensor& x, const Tensor& right) {
      made.push_back(((x.to(at::kDouble) - right).norm() / right.norm()).item<double>());
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) add(got.gradients[i], exact.gradients[i]);
    add(got.value, exact.value);
    return made;
  };
  std::vector<double> pairs;
  {
    const LevelScope scope(Level::avx512bf16);
    pairs = errors();
  }
  at_each_kernel_level([&](const std::string& way) {
    if (!way.starts_with("amx")) return;
    const std::vector<double> tiles = errors();
    for (std::size_t i = 0; i < tiles.size(); ++i)
      EXPECT_LT(tiles[i], 1.05 * pairs[i]) << way << (i < inputs.size() ? " gradient " : " value ") << i;
  });
}

TEST(Promises, TilesAreAsExactAsPairs) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  const Op block = [](const std::vector<Tensor>& in) {
    const auto [sum, y] = norm_gated_mlp(in[0], in[1], in[2], 1e-6, {{in[3]}, {in[4]}, {in[5]}}, Activation::silu);
    return sum + y;
  };
  expect_tiles_as_exact(block, {sample({300, 96}), sample({300, 96}, at::kDouble, 2), sample({96}, at::kDouble, 3),
                                sample({200, 96}, at::kDouble, 4) * 0.1, sample({200, 96}, at::kDouble, 5) * 0.1,
                                sample({96, 200}, at::kDouble, 6) * 0.1});
}

TEST(Promises, AttentionByTilesIsAsExactAsByPairs) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  for (const std::int64_t size : {64, 96})
    // Keys that are much alike, and some that are nearly all: there no error may be left of shares' rounding.
    for (const double scale : {0.02, 0.125, 0.4})
      for (const AttentionOptions& options :
           {AttentionOptions{scale}, {scale, Mask::full(200)}, {scale, {}, 2.0}, {scale, {}, 0, 0.2}}) {
        SCOPED_TRACE(
            fmt::format("size {}, scale {}, cap {}, dropout {}", size, scale, options.soft_cap, options.dropout));
        const Op op = [&](const std::vector<Tensor>& in) {
          return attention(in[0], in[1], in[2], {{0, 300}, {300, 900}}, options);
        };
        expect_tiles_as_exact(op, {sample({900, 2, size}), sample({900, 1, size}, at::kDouble, 2),
                                   sample({900, 1, size}, at::kDouble, 3)});
      }
}

}  // namespace
}  // namespace hone::ops::test
