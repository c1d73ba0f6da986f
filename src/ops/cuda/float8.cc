// Products in fp8: casts by kernels of ours (kernels/float8.cu), products by cuBLAS through LibTorch's _scaled_mm,
// which takes rows of both factors that are dense along what is summed over.
#include <cmath>

#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

constexpr int kCastThreads = 256;
constexpr std::int64_t kCastTile = 64, kFloat8Lengths = 16;  // what is summed over has whole multiples of the latter

at::Tensor unit_scale(const at::Tensor& like) { return at::ones({1, 1}, like.options()); }

bool by_rows(const Float8Factors& f) {
  return f.a_MK.inverse_scale_R1.numel() > 1 || f.b_NK.inverse_scale_R1.numel() > 1;
}

// With the scales, or without, as the hardware's products with scales of rows are made in less than fp32.
void scaled_product(at::Tensor& out, const Float8Factors& f, bool scales, bool fast) {
  const at::Tensor &of_a = f.a_MK.inverse_scale_R1, &of_b = f.b_NK.inverse_scale_R1;
  const at::Tensor one = scales ? at::Tensor() : unit_scale(of_a);
  at::_scaled_mm_out(out, f.a_MK.values_RK, f.b_NK.values_RK.t(), scales ? of_a : one, scales ? of_b.t() : one,
                     /*bias=*/{}, /*scale_result=*/{}, out.scalar_type(), fast);
}

// In fp32.
void exact_product(at::Tensor& out, const Float8Factors& f) {
  scaled_product(out, f, /*scales=*/!by_rows(f), /*fast=*/false);
  if (by_rows(f)) out.mul_(f.a_MK.inverse_scale_R1).mul_(f.b_NK.inverse_scale_R1.t());
}

}  // namespace

Float8Matrix cast_to_float8(const at::Tensor& given, const Float8Format& format, bool turned) {
  const at::Tensor x = given.contiguous();
  const std::int64_t rows = x.size(0), columns = x.size(1), made = turned ? columns : rows;
  const auto along = format.by_rows ? std::vector<std::int64_t>{turned ? 0 : 1} : std::vector<std::int64_t>{0, 1};
  const at::Tensor largest = at::linalg_vector_norm(x, INFINITY, along, /*keepdim=*/false, at::kFloat);
  const std::int64_t length = turned ? ceil_div(rows, kFloat8Lengths) * kFloat8Lengths : columns;
  const Float8Matrix to{at::empty({made, length}, x.options().dtype(format.type)),
                        at::empty({format.by_rows ? made : 1, 1}, x.options().dtype(at::kFloat))};
  const bool fine = format.type == at::kFloat8_e5m2;
  const int type = fine ? 1 : 0, scaled_by_rows = format.by_rows ? 1 : 0;
  const double scale_of_nothing = (fine ? 57344 : 448) / kFloat8Smallest;
  if (turned) {
    const Grid grid{.x = ceil_div(columns, kCastTile), .y = ceil_div(length, kCastTile), .threads = kCastThreads};
    launch({"float8", "to_float8_turned"}, x, grid, x, largest, to.values_RK, to.inverse_scale_R1, rows, columns,
           length, type, scaled_by_rows, scale_of_nothing);
  } else {
    const bool wide = wide_rows(columns, {x});
    launch({"float8", "to_float8"}, x, over_all(x.numel() / values_at_once(x, wide)), x, largest, to.values_RK,
           to.inverse_scale_R1, rows, columns, type, scaled_by_rows, scale_of_nothing, wide);
  }
  return to;
}

void float8_products(at::Tensor& out, const std::vector<Float8Factors>& factors, bool add, bool fast) {
  const bool narrow = out.scalar_type() != at::kFloat;
  const bool whole = narrow ? factors.size() == 1 && !add && (fast || !by_rows(factors[0])) : false;
  if (whole) return scaled_product(out, factors[0], /*scales=*/true, fast);
  at::Tensor sum = narrow ? at::empty(out.sizes(), out.options().dtype(at::kFloat)) : out;
  for (const Float8Factors& f : factors) {
    if (!add) {
      exact_product(sum, f);
    } else {
      at::Tensor product = at::empty_like(sum);
      exact_product(product, f);
      sum.add_(product);
    }
    add = true;
  }
  if (narrow) out.copy_(sum);
}

}  // namespace hone::ops::cuda_table
