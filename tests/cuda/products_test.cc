// Sums of products by the GPU's table, where LibTorch makes the products.
#include "cuda/kernel_check.h"
#include "ops/gated.h"
#include "ops/linear.h"
#include "ops/rope.h"

namespace hone::ops::test {
namespace {

struct Parts {
  std::vector<Tensor> a, b;
};

// Of 48 rows, by depths of 16 and 40: a side by side in one matrix, b one below the other, or each by itself; `apart`:
// with something between them.
Parts parts(at::ScalarType type, bool a_beside, bool b_below, bool apart) {
  const std::int64_t gap = apart ? 8 : 0;
  const Tensor a = sample({48, 56 + gap}, type), b = sample({56 + gap, 24}, type, 2);
  Parts made{{a.narrow(1, 0, 16), a.narrow(1, 16 + gap, 40)}, {b.narrow(0, 0, 16), b.narrow(0, 16 + gap, 40)}};
  if (!a_beside)
    for (Tensor& x : made.a) x = x.clone();
  if (!b_below)
    for (Tensor& x : made.b) x = x.clone();
  return made;
}

TEST(CudaProducts, SumsOfNeighboursAreThoseOfWhatLiesAnywhere) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const bool a_beside : {false, true})
      for (const bool b_below : {false, true})
        for (const bool apart : {false, true}) {
          const Parts in = parts(type, a_beside, b_below, apart);
          const std::vector<Factors> factors{{in.a[0], in.b[0]}, {in.a[1], in.b[1]}};
          const Tensor room = at::zeros({48, 30}, in.a[0].options());
          Tensor got = room.narrow(1, 6, 24), expected = at::empty({48, 24}, got.options());
          emulated_products().into(got, factors, false);
          reference_backend().products.into(expected, factors, false);
          expect_same(got, expected, once_rounded(type), "a sum");
          EXPECT_TRUE(room.narrow(1, 0, 6).eq(0).all().item<bool>());
        }
}
TEST(CudaProducts, TransposedNeighboursAreMultipliedAsTheyAre) {
  const Tensor a = sample({56, 48}, at::kBFloat16), b = sample({24, 56}, at::kBFloat16, 2);
  const std::vector<Factors> factors{{a.narrow(0, 0, 16).t(), b.narrow(1, 0, 16).t()},
                                     {a.narrow(0, 16, 40).t(), b.narrow(1, 16, 40).t()}};
  Tensor got = at::empty({48, 24}, a.options()), expected = at::empty_like(got);
  emulated_products().into(got, factors, false);
  reference_backend().products.into(expected, factors, false);
  expect_same(got, expected, once_rounded(at::kBFloat16), "a sum");
}


// A layer's products, heads that are rotated and an MLP, whose gradients a GPU lays side by side, and the residual that
// goes through its norms.
Results layer_gradients(const Backend& table, at::ScalarType type) {
  const BackendScope scope(table);
  std::uint64_t seed = 0;
  std::vector<Tensor> leaves;
  const auto leaf = [&](at::IntArrayRef shape) {
    leaves.push_back((sample(shape, type, ++seed) * 0.3).detach().requires_grad_());
    return leaves.back();
  };
  const auto own = [&](at::IntArrayRef shape) { return sample(shape, type, ++seed); };
  const Tensor x = leaf({1, 12, 16}), norm = leaf({16}), mlp_norm = leaf({16});
  const std::vector<LinearWeight> qkv{{leaf({32, 16})}, {leaf({16, 16})}, {leaf({16, 16})}};
  const GatedMlpWeights mlp{{leaf({24, 16})}, {leaf({24, 16})}, {leaf({16, 24})}};
  const Tensor angles = at::arange(12, at::kFloat).unsqueeze(1) * at::arange(1, 5, at::kFloat) / 7;
  const auto wide = at::toOpMathType(type);
  const RopeTable rope{angles.cos().to(wide), angles.sin().to(wide), at::arange(12, at::kLong)};
  const NormedProducts made = norm_linears(x, {}, norm, 1e-6, qkv);
  const auto heads = [&](std::size_t i) { return made.products[i].view({12, -1, 8}); };
  const Rotated turned = rope_beside(heads(0), heads(1), heads(2), rope);
  const Tensor added = (turned.q_NHK * own({12, 4, 8})).sum() + (turned.k_NGK * own({12, 2, 8})).sum() +
                       (turned.v_NGK * own({12, 2, 8})).sum();
  const NormGatedMlp out = norm_gated_mlp(made.sum, made.products[1], mlp_norm, 1e-6, mlp, Activation::silu);
  const Tensor loss = added + ((out.sum + out.y) * own({1, 12, 16})).sum();
  loss.backward();
  Results all{made.sum.detach(), out.y.detach()};
  for (const Tensor& each : leaves) all.push_back(each.grad());
  return all;
}
TEST(CudaTable, GradientsOfALayerAreTheReferences) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat})
    expect_as_reference([&](const Backend& table) { return layer_gradients(table, type); }, type, "a layer");
  const Results narrow = emulated_results([](const Backend& table) { return layer_gradients(table, at::kBFloat16); },
                                          "a layer");
  const Results expected = layer_gradients(reference_backend(), at::kFloat);
  for (std::size_t i = 0; i < narrow.size(); ++i)
    expect_same(narrow[i].to(at::kFloat), expected[i], 0.05, "result " + std::to_string(i) + " of a layer in bf16");
}

}  // namespace
}  // namespace hone::ops::test
