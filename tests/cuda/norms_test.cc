// Kernels of norms against the reference's table.
#include "cuda/kernel_check.h"
#include "ops/layer_norm.h"
#include "ops/rms_norm.h"

namespace hone::ops::test {
namespace {

struct NormInputs {
  Tensor x, residual, weight, bias, dy, extra;
};

NormInputs norm_inputs(std::int64_t rows, std::int64_t columns, at::ScalarType type, bool misplace) {
  const auto made = [&](at::IntArrayRef shape, std::uint64_t seed) {
    const Tensor x = sample(shape, type, seed);
    return misplace ? misplaced(x) : x;
  };
  return {made({rows, columns}, 1), made({rows, columns}, 2), made({columns}, 3),
          made({columns}, 4),       made({rows, columns}, 5), made({rows, columns}, 6)};
}

Tensor joined(const Tensor& sums_BO) { return sums_BO.sum(0); }

Results rms_results(const Backend& table, const NormInputs& in, bool more, RmsFactor factor = RmsFactor::weight) {
  const RmsNormForm form{1e-5, factor};
  const RmsNormed made = table.norms.rms_norm(in.x, more ? in.residual : Tensor(), in.weight, form);
  const NormGradients back = table.norms.rms_norm_backward(in.dy, more ? in.extra : Tensor(), in.weight, made, form);
  return {made.sum, made.normed, made.inv_rms, back.x, joined(back.weight_BO)};
}

Results layer_results(const Backend& table, const NormInputs& in, bool more) {
  const LayerNormed made =
      table.norms.layer_norm(in.x, more ? in.residual : Tensor(), in.weight, more ? in.bias : Tensor(), 1e-5);
  const NormGradients back = table.norms.layer_norm_backward(in.dy, more ? in.extra : Tensor(), in.weight, made);
  return {made.sum, made.normed, made.mean, made.inv_std, back.x, joined(back.weight_BO), joined(back.bias_BO)};
}

void expect_norms(std::int64_t rows, std::int64_t columns, at::ScalarType type, bool misplace = false) {
  const NormInputs in = norm_inputs(rows, columns, type, misplace);
  for (const bool more : {false, true}) {
    const std::string what =
        described(type, rows, columns) + (more ? " with all" : "") + (misplace ? " misplaced" : "");
    for (const RmsFactor factor : {RmsFactor::weight, RmsFactor::wide_weight, RmsFactor::one_plus_weight})
      expect_as_reference([&](const Backend& table) { return rms_results(table, in, more, factor); }, type,
                          "rms " + std::to_string(static_cast<int>(factor)) + " " + what);
    expect_as_reference([&](const Backend& table) { return layer_results(table, in, more); }, type, "layer " + what);
  }
}

TEST(CudaNorms, AgreeWithTheReferenceOnRaggedRows) {
  for (const at::ScalarType type : kAllTypes)
    for (const std::int64_t columns : {2, 31, 32, 33, 64, 100, 1000})
      expect_norms(columns < 100 ? 70 : 5, columns, type);
}
// By teams of 1 lane to 256, with 1 to 8 accesses each, the last of which may be nobody's.
TEST(CudaNorms, KeepRowsOfEveryLengthInRegisters) {
  for (const at::ScalarType type : kAllTypes) {
    const std::int64_t values = 16 / static_cast<std::int64_t>(at::elementSize(type));
    for (const std::int64_t accesses : {1, 3, 31, 33, 64, 100, 256, 257, 600})
      expect_norms(accesses < 64 ? 40 : 10, accesses * values, type);
  }
}
TEST(CudaNorms, GoOnWhereThereAreMoreRowsThanBlocksTakeAtOnce) {
  const auto expect = [](std::int64_t rows, std::int64_t columns, at::ScalarType type, double allowed) {
    const NormInputs in = norm_inputs(rows, columns, type, false);
    expect_as_reference([&](const Backend& table) { return rms_results(table, in, true); }, type,
                        described(type, rows, columns), allowed);
  };
  expect(1100, 512, at::kDouble, 1e-11);   // by warps
  expect(600, 1024, at::kDouble, 1e-11);   // by two of them
  expect(3000, 8, at::kFloat, 1e-4);       // two lanes to a row, four rows of each at once
}
// A weight that is infinite is those columns' alone.
TEST(CudaNorms, WhatIsBehindARowsEndIsNotRead) {
  NormInputs in = norm_inputs(9, 40, at::kFloat, false);
  in.weight[0] = INFINITY;
  expect_as_reference(
      [&](const Backend& table) {
        return Results{table.norms.rms_norm(in.x, in.residual, in.weight, 1e-5).normed};
      },
      at::kFloat, "an infinite weight");
}
TEST(CudaNorms, ReadWhatLiesAnywhere) {
  for (const at::ScalarType type : kAllTypes) expect_norms(3, 64, type, /*misplace=*/true);
}
TEST(CudaNorms, TakeRowsWhoseSumsShareNoRoom) {
  expect_norms(2, 12000, at::kFloat);   // neither
  expect_norms(2, 8000, at::kBFloat16);  // RMSNorm's do, LayerNorm's, which are two, do not
}
TEST(CudaNorms, ShareManyRowsAmongBlocks) {
  const NormInputs in = norm_inputs(257, 4096, at::kBFloat16, false);  // two to a block, one in the last
  const Primitive rms = [&](const Backend& table) { return rms_results(table, in, true); };
  const Primitive layer = [&](const Backend& table) { return layer_results(table, in, true); };
  expect_as_reference(rms, at::kBFloat16, "rms");
  expect_as_reference(layer, at::kBFloat16, "layer");
  const NormInputs narrow = norm_inputs(8195, 2, at::kFloat, false);  // two to a warp, eight warps to a block
  expect_as_reference([&](const Backend& table) { return rms_results(table, narrow, true); }, at::kFloat, "narrow",
                      1e-4);  // thousands of terms: the reference's sum is in another order
}
// A single value is its own mean: what is left of it is 0, and the gradient is that of rounding alone.
TEST(CudaNorms, OfOneColumn) {
  for (const at::ScalarType type : kAllTypes) {
    const NormInputs in = norm_inputs(33, 1, type, false);
    expect_as_reference(
        [&](const Backend& table) {
          const RmsNormed made = table.norms.rms_norm(in.x, in.residual, in.weight, 1e-5);
          return Results{made.sum, made.normed, made.inv_rms};
        },
        type, "one column");
    expect_as_reference(
        [&](const Backend& table) {
          const LayerNormed made = table.norms.layer_norm(in.x, in.residual, in.weight, in.bias, 1e-5);
          return Results{made.sum, made.normed, made.mean, made.inv_std};
        },
        type, "one column");
  }
}
TEST(CudaNorms, KeepWhatIsNotANumber) {
  for (const at::ScalarType type : kAllTypes) {
    NormInputs in = norm_inputs(4, 40, type, false);
    in.x[1][3] = NAN;
    in.x[2][39] = INFINITY;
    expect_as_reference([&](const Backend& table) { return rms_results(table, in, true); }, type, "rms");
    expect_as_reference([&](const Backend& table) { return layer_results(table, in, true); }, type, "layer");
  }
}
TEST(CudaNorms, TakeTransposedTensors) {
  NormInputs in = norm_inputs(40, 40, at::kFloat, false);
  in.x = in.x.t();
  in.dy = in.dy.t();
  expect_as_reference([&](const Backend& table) { return rms_results(table, in, true); }, at::kFloat, "transposed");
}
TEST(CudaNorms, GradientsAreThoseOfDifferences) {
  const BackendScope scope(emulated_backend());
  gradcheck([](const auto& in) { return rms_norm(in[0], in[1], 1e-6); },
            {sample({3, 5}), sample({5}, at::kDouble, 2)});
  gradcheck([](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-6); },
            {sample({3, 5}), sample({5}, at::kDouble, 2), sample({5}, at::kDouble, 3)});
}

}  // namespace
}  // namespace hone::ops::test
