// Numbers of few bits: bitsandbytes' codes and values (tools/golden/golden_quantized.py), the same at every level; and
// products with them.
#include "ops/quantized.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "ops/cpu/products/quantized_rows.h"
#include "ops/cpu/quantized.h"
#include "ops/levels.h"
#include "ops/quantized_parts.h"
#include "ops/skinny_parts.h"
#include "tensor/host.h"

namespace hone::ops {
namespace {

constexpr QuantizedAs kKinds[] = {
    {QuantType::nf4}, {QuantType::nf4, true}, {QuantType::fp4}, {QuantType::fp4, true}, {QuantType::int8}};

at::Tensor random_matrix(std::int64_t rows, std::int64_t in) {
  at::manual_seed(static_cast<std::uint64_t>(rows * 1000 + in));
  return at::randn({rows, in}) * 0.2;
}

TEST(Quantized, GivesBitsandbytesCodesAndValues) {
  std::ifstream file(hone::test::golden("quantized/numbers.json"));
  const nlohmann::json numbers = nlohmann::json::parse(file);
  test::at_each_kernel_level([&](const std::string& level) {
    for (const nlohmann::json& one : numbers["matrices"]) {
      SCOPED_TRACE(level + " " + one["type"].get<std::string>());
      const auto shape = one["shape"].get<std::vector<std::int64_t>>();
      const QuantType type = one["type"] == "nf4" ? QuantType::nf4 : QuantType::fp4;
      const auto values = one["x"].get<std::vector<float>>();
      const auto made = quantize(host::tensor_of(values, shape), {type});
      const auto codes = one["codes"].get<std::vector<std::uint8_t>>();
      EXPECT_TRUE(at::equal(made->codes, host::tensor_of(codes, {std::ssize(codes)})));
      const auto scales = one["absmax"].get<std::vector<float>>();
      EXPECT_TRUE(at::equal(made->scales, host::tensor_of(scales, {std::ssize(scales)})));
      const auto back = one["back"].get<std::vector<float>>();
      EXPECT_TRUE(at::equal(dequantize(*made, at::kFloat), host::tensor_of(back, shape)));
    }
  });
}

TEST(Quantized, IsNearWhatItStandsFor) {
  const at::Tensor x = random_matrix(40, 192);
  for (const QuantizedAs as : kKinds) {
    const double error = (dequantize(*quantize(x, as), at::kFloat) - x).square().mean().sqrt().item<double>() /
                         x.square().mean().sqrt().item<double>();
    EXPECT_LT(error, as.type == QuantType::int8 ? 0.008 : as.type == QuantType::nf4 ? 0.1 : 0.14);
    EXPECT_GT(error, as.type == QuantType::int8 ? 0.002 : 0.05);
  }
}

// Kernels against LibTorch's own operations, for rows that end within a block and an odd number of numbers.
TEST(Quantized, EveryLevelGivesTheSameBits) {
  for (const auto& [rows, in] : {std::pair{7, 64}, {5, 30}, {3, 129}, {11, 7}, {300, 128}})
    for (const QuantizedAs as : kKinds)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
        const at::Tensor x = random_matrix(rows, in).to(type);
        std::shared_ptr<const Quantized> expected;
        at::Tensor back;
        {
          const LevelScope reference(Level::reference);
          expected = quantize(x, as), back = dequantize(*expected, type);
        }
        test::at_each_kernel_level([&](const std::string& level) {
          SCOPED_TRACE(fmt::format("{} {}x{} {}", level, rows, in, static_cast<int>(as.type)));
          const auto made = quantize(x, as);
          EXPECT_TRUE(at::equal(made->codes, expected->codes));
          EXPECT_TRUE(at::equal(made->scales, expected->scales));
          EXPECT_TRUE(at::equal(dequantize(*made, type), back));
        });
      }
}

// Row by row, each block's scale by its code.
TEST(Quantized, ScalesInEightBitsAreNearTheirs) {
  const at::Tensor x = random_matrix(600, 64) * (at::arange(600).unsqueeze(1) / 100 + 0.1);
  const auto plain = quantize(x, {QuantType::nf4}), both = quantize(x, {QuantType::nf4, true});
  EXPECT_TRUE(at::equal(plain->codes, both->codes));
  EXPECT_EQ(both->scales.numel(), 3);
  EXPECT_EQ(both->scale_codes.numel(), 600);
  const at::Tensor one = dequantize(*plain, at::kFloat), other = dequantize(*both, at::kFloat);
  EXPECT_LT(((one - other).abs().amax(1) / one.abs().amax(1)).slice(0, 100).max().item<double>(), 0.08);
  EXPECT_EQ(plain->bytes(), 600 * 32 + 2400);
  EXPECT_EQ(both->bytes(), 600 * 32 + 600 + 12);
  EXPECT_EQ(quantized_bytes({600, 64}, both->as), both->bytes());
}

TEST(Quantized, ZerosStayZeros) {
  for (const QuantizedAs as : kKinds) {
    const auto made = quantize(at::zeros({4, 70}), as);
    EXPECT_TRUE(at::equal(dequantize(*made, at::kFloat), at::zeros({4, 70}))) << static_cast<int>(as.type);
  }
}

TEST(Quantized, RefusesWhatIsNotFinite) {
  for (const QuantizedAs as : kKinds)
    for (const double bad : {INFINITY, -INFINITY, NAN}) {
      at::Tensor x = random_matrix(4, 70);
      x[2][9] = bad;
      EXPECT_HONE_ERROR(quantize(x, as), checkpoint, "infinite or not a number");
    }
}

template <class T>
at::Tensor product(const at::Tensor& x, const Quantized& weight, const at::Tensor& bias) {
  const std::int64_t rows = x.size(0), in = weight.shape[1], outs = weight.shape[0];
  at::Tensor y = at::full({rows, outs}, 7, x.options());
  const cpu::QuantizedRows view = quantized_rows(weight);
  cpu::SkinnyProduct<T> p{host::values<T>(x).data(),
                          nullptr,
                          host::values<T>(bias).data(),
                          rows,
                          in,
                          outs,
                          host::mutable_values<T>(y).data(),
                          outs,
                          nullptr,
                          &view};
  SharedRows packed;
  p.packed = packed.pack(p);
  for (std::int64_t block = 0; block < blocks_of(p); ++block) multiply(cut(p, block, block + 1));
  return y;
}

// Products with the whole numbers that codes and inputs become, against those with what they stand for.
TEST(Quantized, ProductsOfFewRowsAreNear) {
  for (const auto& [outs, in] : {std::pair{70, 192}, {33, 64}, {64, 90}, {5, 640}})
    for (const QuantizedAs as : kKinds)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
        const auto weight = quantize(random_matrix(outs, in), as);
        const at::Tensor bias = random_matrix(1, outs).flatten().to(type);
        for (const std::int64_t rows : {1, 2, 3, 7, 16}) {
          const at::Tensor x = random_matrix(rows, in).to(type);
          const at::Tensor exact =
              at::linear(x.to(at::kDouble), dequantize(*weight, at::kDouble), bias.to(at::kDouble));
          at::Tensor first;
          test::at_each_kernel_level([&](const std::string& level) {
            SCOPED_TRACE(fmt::format("{} {}x{} {} rows {}", level, outs, in, static_cast<int>(as.type), rows));
            const at::Tensor y = cpu::with_type(type, [&]<class T>(T) { return product<T>(x, *weight, bias); });
            const double most = exact.abs().max().item<double>();
            EXPECT_LT((y.to(at::kDouble) - exact).abs().max().item<double>() / most,
                      type == at::kBFloat16 ? 5e-3 : 1e-3);
            // A row's bits are its own.
            const at::Tensor alone = cpu::with_type(
                type, [&]<class T>(T) { return product<T>(x.narrow(0, rows - 1, 1).clone(), *weight, bias); });
            EXPECT_TRUE(at::equal(alone, y.narrow(0, rows - 1, 1)));
          });
        }
      }
}

TEST(Quantized, ANotFiniteInputIsSeen) {
  const auto weight = quantize(random_matrix(8, 128), {QuantType::nf4});
  test::at_each_kernel_level([&](const std::string& level) {
    at::Tensor x = random_matrix(2, 128);
    x[1][70] = INFINITY;
    const at::Tensor y = product<float>(x, *weight, at::zeros({8}));
    EXPECT_TRUE(y[0].isfinite().all().item<bool>()) << level;
    EXPECT_FALSE(y[1].isfinite().any().item<bool>()) << level;
  });
}

}  // namespace
}  // namespace hone::ops
