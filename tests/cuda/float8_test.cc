// Casts to fp8: the kernels give LibTorch's bits.
#include "cuda/kernel_check.h"

namespace hone::ops::test {
namespace {

Results casts(const Backend& table, const Tensor& x, const Float8Format& format, bool turned) {
  const Float8Matrix made = table.products.to_float8(x, format, turned);
  const std::int64_t length = turned ? x.size(0) : x.size(1);
  const Tensor values = made.values_RK.view(at::kByte), behind = values.narrow(1, length, values.size(1) - length);
  EXPECT_EQ(behind.count_nonzero().item<std::int64_t>(), 0);
  return {values.narrow(1, 0, length), made.inverse_scale_R1};
}

void expect_casts(const Tensor& x, const std::string& what) {
  for (const at::ScalarType type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    for (const bool by_rows : {false, true})
      for (const bool turned : {false, true}) {
        const Float8Format format{type, by_rows};
        const std::string name = what + " to " + c10::toString(type) + (by_rows ? " by rows" : "") +
                                 (turned ? " turned" : "");
        const Results got =
            emulated_results([&](const Backend& table) { return casts(table, x, format, turned); }, name);
        const Results expected = casts(reference_backend(), x, format, turned);
        EXPECT_TRUE(got[0].equal(expected[0])) << name;
        EXPECT_TRUE(bits_of(got[1]).equal(bits_of(expected[1]))) << name;
      }
}

// Of sizes that reach from where fp8 has no normal numbers to its largest.
Tensor of_all_sizes(std::int64_t rows, std::int64_t columns, at::ScalarType type) {
  const Tensor sizes = at::exp2(sample({rows, columns}, at::kDouble, 3) * 5);
  return (sample({rows, columns}, at::kDouble, 4) * sizes).to(type);
}

TEST(CudaFloat8, GivesLibTorchsBits) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [rows, columns] : {std::pair(1, 16), {37, 48}, {64, 64}, {65, 144}, {130, 16}})
      expect_casts(of_all_sizes(rows, columns, type), described(type, rows, columns));
}
TEST(CudaFloat8, OfWhatLiesAnywhere) {
  expect_casts(misplaced(of_all_sizes(9, 32, at::kBFloat16)), "misplaced");
  expect_casts(of_all_sizes(32, 48, at::kBFloat16).t(), "transposed");
}
TEST(CudaFloat8, OfZerosAndWhatIsNextToNothing) {
  for (const double size : {0.0, 1e-30, 1e-12}) {
    Tensor x = of_all_sizes(20, 16, at::kBFloat16);
    x[3] = 0, x.select(1, 5).fill_(0), x[4].fill_(size);
    expect_casts(x, "a row of " + std::to_string(size));
    expect_casts(at::full({20, 16}, size, at::kBFloat16), "all of " + std::to_string(size));
  }
}
TEST(CudaFloat8, WhatIsNotANumberSpoilsWhatItIsScaledWith) {
  for (const double bad : {NAN, INFINITY})
    for (const bool by_rows : {false, true})
      for (const bool turned : {false, true}) {
        Tensor x = of_all_sizes(20, 16, at::kFloat);
        x[2][3] = bad;
        const Float8Matrix made = emulated_backend().products.to_float8(x, {at::kFloat8_e4m3fn, by_rows}, turned);
        const Tensor back = made.values_RK.to(at::kFloat) * made.inverse_scale_R1;
        EXPECT_TRUE(back.isnan().any().item<bool>()) << bad << by_rows << turned;
        EXPECT_EQ(back.isnan().all().item<bool>(), !by_rows) << bad << by_rows << turned;
      }
}

// Every bf16 number between the smallest of fp8 and the largest, each beside the largest, which makes the scale 1.
TEST(CudaFloat8, RoundsEveryNumber) {
  const Tensor all = at::arange(0x3000, 0x4400, at::kInt).to(at::kShort).view(at::kBFloat16).to(at::kFloat);
  Tensor x = at::cat({all, -all}).view({-1, 16});
  expect_casts(at::cat({x, at::full({1, 16}, 448.0, at::kFloat)}), "all");
  expect_casts(at::cat({x, at::full({1, 16}, 57344.0, at::kFloat)}), "all below");
}

// By LibTorch's _scaled_mm of the host, which knows no scales of rows: those are for whoever has a GPU.
TEST(CudaFloat8, ProductsAreThoseOfTheRoundedFactors) {
  const Tensor x = sample({37, 48}, at::kBFloat16), w = sample({32, 48}, at::kBFloat16, 2),
               dy = sample({37, 32}, at::kBFloat16, 3);
  for (const bool by_rows : {false, true}) {
    const Float8Format plain{at::kFloat8_e4m3fn, by_rows},
        of_gradient{by_rows ? at::kFloat8_e4m3fn : at::kFloat8_e5m2, by_rows};
    const auto cast = emulated_backend().products.to_float8;
    const Float8Factors forward{cast(x, plain, false), cast(w, plain, false)},
        back{cast(dy, of_gradient, false), cast(w, plain, true)},
        gradient{cast(dy, of_gradient, true), cast(x, plain, true)};
    const auto expect_product = [&](const std::vector<Float8Factors>& factors, at::ScalarType type, bool add) {
      Tensor got = at::ones({factors[0].a_MK.values_RK.size(0), factors[0].b_NK.values_RK.size(0)},
                            at::TensorOptions().dtype(type)), expected = got.clone();
      emulated_backend().products.float8_into(got, factors, add, /*fast=*/!by_rows);
      reference_backend().products.float8_into(expected, factors, add, /*fast=*/false);
      expect_same(got, expected, once_rounded(type), by_rows ? "rowwise" : "tensorwise");
    };
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      expect_product({forward}, type, false);
      expect_product({back}, type, false);
      expect_product({back, back}, type, false);
    }
    for (const bool add : {false, true}) expect_product({gradient}, at::kFloat, add);
  }
}

}  // namespace
}  // namespace hone::ops::test
