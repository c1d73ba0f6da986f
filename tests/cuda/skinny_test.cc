// Products of few rows: the kernels beside their meaning in fp64.
#include "cuda/kernel_check.h"

namespace hone::ops::test {
namespace {

LinearWeight weight_of(std::int64_t outs, std::int64_t in, at::ScalarType type, std::uint64_t seed, bool bias) {
  const double spread = 1 / std::sqrt(static_cast<double>(in));
  return {(sample({outs, in}, at::kDouble, seed) * spread).to(type), bias ? sample({outs}, type, seed + 1) : Tensor()};
}
Tensor meaning(const Tensor& x, const LinearWeight& w) {
  const Tensor y = at::matmul(x.to(at::kDouble), w.weight_OI.to(at::kDouble).t());
  return w.bias_O.defined() ? y + w.bias_O.to(at::kDouble) : y;
}

void expect_products(const Tensor& x, const std::vector<LinearWeight>& weights, const std::string& what) {
  const Results got =
      emulated_results([&](const Backend& table) { return table.products.skinny(x, weights); }, what);
  ASSERT_EQ(got.size(), weights.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].scalar_type(), x.scalar_type()) << what;
    expect_same(got[i].to(at::kDouble), meaning(x, weights[i]), once_rounded(x.scalar_type()),
                what + ": product " + std::to_string(i));
  }
}
void expect_gated(const Tensor& x, const LinearWeight& gate, const LinearWeight& up, Activation activation,
                  const std::string& what) {
  const Primitive gated = [&](const Backend& table) {
    return Results{table.products.skinny_gated(x, gate, up, activation)};
  };
  const Tensor got = emulated_results(gated, what)[0];
  const Tensor expected = reference_backend().elementwise.gated(meaning(x, gate), meaning(x, up), activation);
  EXPECT_EQ(got.scalar_type(), x.scalar_type()) << what;
  expect_same(got.to(at::kDouble), expected, 3 * once_rounded(x.scalar_type()), what);  // gate, up, what they give
}

TEST(CudaSkinny, EveryNumberOfRowsAndSize) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t in : {1, 8, 33, 264, 1288, 4096})
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 8}) {
        if (in == 4096 && (rows % 4 != 1 || type == at::kHalf)) continue;
        const Tensor x = sample({rows, in}, type);
        expect_products(x, {weight_of(9, in, type, 2, false), weight_of(2, in, type, 4, true)},
                        described(type, rows, in));
      }
}
TEST(CudaSkinny, AnyNumberOfWeightsAndOutputs) {
  const Tensor x = sample({3, 64}, at::kBFloat16);
  for (const std::int64_t outs : {1, 7, 8, 15, 16, 17, 65}) {
    std::vector<LinearWeight> weights;
    for (const std::int64_t more : {0, 1, 30, 2, 3}) {
      weights.push_back(weight_of(outs + more, 64, at::kBFloat16, 2 + static_cast<std::uint64_t>(more), more % 2 == 0));
      expect_products(x, weights, std::to_string(weights.size()) + " weights of " + std::to_string(outs));
    }
  }
}
TEST(CudaSkinny, EveryActivationOfTheGated) {
  for (const at::ScalarType type : kAllTypes)
    for (const Activation activation :
         {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu})
      for (const std::int64_t rows : {1, 3, 8}) {
        const bool bias = rows != 3;
        const std::int64_t in = rows == 8 ? 100 : 264;
        const std::string what = described(type, rows, in) + " by " + std::to_string(static_cast<int>(activation));
        expect_gated(sample({rows, in}, type), weight_of(19, in, type, 2, bias), weight_of(19, in, type, 4, bias),
                     activation, what);
      }
}
TEST(CudaSkinny, ReadsWhatLiesAnywhere) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = sample({2, 64}, type);
    const LinearWeight w = weight_of(9, 64, type, 2, false), moved = {misplaced(w.weight_OI)};
    expect_products(misplaced(x), {w}, "x misplaced");
    expect_products(x, {w, moved}, "a weight misplaced");
    expect_products(sample({64, 2}, type).t(), {w}, "x transposed");
    expect_gated(x, w, moved, Activation::silu, "up misplaced");
  }
}
TEST(CudaSkinny, ARowsBitsDoNotDependOnOthers) {
  for (const at::ScalarType type : kAllTypes) {
    const Tensor x = sample({8, 1288}, type);
    const LinearWeight w = weight_of(9, 1288, type, 2, true), up = weight_of(9, 1288, type, 4, true);
    const auto& products = emulated_backend().products;
    const Tensor all = products.skinny(x, {w})[0], gated = products.skinny_gated(x, w, up, Activation::silu);
    for (const auto& [first, rows] : {std::pair(0, 1), {7, 1}, {2, 2}, {1, 4}, {3, 5}}) {
      const Tensor some = x.narrow(0, first, rows);
      EXPECT_TRUE(products.skinny(some, {w})[0].equal(all.narrow(0, first, rows))) << rows;
      EXPECT_TRUE(products.skinny_gated(some, w, up, Activation::silu).equal(gated.narrow(0, first, rows))) << rows;
    }
  }
}
// As the norm and the products apart, to the bit.
void expect_normed(const Tensor& x, const Tensor& residual, const Tensor& norm, std::int64_t outs) {
  const std::int64_t in = x.size(1);
  const std::string what = described(x.scalar_type(), x.size(0), in) + (residual.defined() ? " with a residual" : "");
  const LinearWeight a = weight_of(outs, in, x.scalar_type(), 2, true), b = weight_of(2, in, x.scalar_type(), 4, false);
  const LinearWeight up = weight_of(outs, in, x.scalar_type(), 6, false);
  const auto run = [&](const Backend& table) {
    const NormedProducts products = table.products.norm_skinny({x, residual, norm, 1e-5}, {a, b}),
                         gated = table.products.norm_skinny_gated({x, residual, norm, 1e-5}, a, up, Activation::silu);
    return Results{products.sum, products.products[0], products.products[1], gated.sum, gated.products[0]};
  };
  const Results got = emulated_results(run, what);
  const Backend& table = emulated_backend();
  const RmsNormed apart = table.norms.rms_norm(x, residual, norm, 1e-5);
  const std::vector<Tensor> products = table.products.skinny(apart.normed, {a, b});
  const Tensor gated = table.products.skinny_gated(apart.normed, a, up, Activation::silu);
  const Results expected = {apart.sum, products[0], products[1], apart.sum, gated};
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(bits_of(got[i]).equal(bits_of(expected[i]))) << what << ": result " << i;
}
TEST(CudaSkinny, NormsOnTheWayGiveTheSameBits) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t in : {1, 8, 33, 264, 1288, 2048})
      for (const std::int64_t rows : {1, 3, 8}) {
        if (in > 1288 && type == at::kDouble) continue;
        const Tensor x = sample({rows, in}, type), residual = sample({rows, in}, type, 7), norm = sample({in}, type, 8);
        expect_normed(x, {}, norm, 9);
        expect_normed(x, residual, norm, in == 264 ? 150 : 3);
      }
}
TEST(CudaSkinny, NormsOfWhatTheRoomCannotHoldAreMadeBefore) {
  const std::int64_t before = emulated_launches();
  const Tensor x = sample({8, 4096}, at::kBFloat16), norm = sample({4096}, at::kBFloat16, 8);
  const LinearWeight w = weight_of(3, 4096, at::kBFloat16, 2, true);
  const auto& table = emulated_backend();
  const NormedProducts made = table.products.norm_skinny({x, {}, norm, 1e-5}, {w});
  EXPECT_EQ(emulated_launches(), before + 2);
  const Tensor normed = table.norms.rms_norm(x, {}, norm, 1e-5).normed;
  EXPECT_TRUE(made.products[0].equal(table.products.skinny(normed, {w})[0]));
  EXPECT_TRUE(made.sum.equal(x));
}
TEST(CudaSkinny, OfManyRowsIsTheLibrarys) {
  const LinearWeight w = weight_of(9, 64, at::kFloat, 2, true), turned = {w.weight_OI.t().contiguous().t(), w.bias_O};
  const std::int64_t before = emulated_launches();
  for (const auto& [rows, weight] : {std::pair(9, w), {3, turned}}) {
    const Tensor x = sample({rows, 64}, at::kFloat);
    expect_same(emulated_backend().products.skinny(x, {weight})[0].to(at::kDouble), meaning(x, weight), 2e-6, "many");
  }
  EXPECT_EQ(emulated_launches(), before);
}

}  // namespace
}  // namespace hone::ops::test
