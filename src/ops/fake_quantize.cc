// Rounding to grids, by LibTorch's own operations.
#include "ops/fake_quantize.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "hone/error.h"
#include "ops/kept_sum.h"

namespace hone::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kLargestFloat8 = 448;

double last_code(Grid grid) { return grid == Grid::int4 ? 7 : 127; }

Tensor wide(const Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }
// The least normal number of a type: no scale is 0.
double least_of(at::ScalarType type) {
  constexpr double kLeastHalf = 6.103515625e-05;
  return type == at::kHalf ? kLeastHalf : std::numeric_limits<float>::min();
}

// [O, G, group].
Tensor by_groups(const Tensor& x_OI, std::int64_t group) {
  return x_OI.unflatten(1, {-1, group > 0 ? group : x_OI.size(1)});
}

// Before they are cut off at the grid's ends; scales [O, G, 1].
struct Rounded {
  Tensor codes_OGI, scales_OG1;
};
Rounded rounded(const Tensor& weight_OI, Grid grid, std::int64_t group) {
  HONE_ASSERT(grid == Grid::int4 || grid == Grid::int8);
  const Tensor x_OGI = wide(by_groups(weight_OI, group));
  const auto type = weight_OI.scalar_type();
  const Tensor scales = (x_OGI.abs().amax(-1, /*keepdim=*/true) / (last_code(grid) + 0.5)).clamp_min(least_of(type));
  const Tensor kept = scales.to(type).to(x_OGI.scalar_type());
  return {at::round(x_OGI * kept.reciprocal()), kept};
}

bool is_floating(Grid grid) { return grid == Grid::float8; }

Tensor float8_scales(const Tensor& x, at::ScalarType type) {
  const Tensor scales = (x.abs().amax(-1, /*keepdim=*/true) / kLargestFloat8).clamp_min(least_of(type));
  return scales.to(type).to(x.scalar_type());
}
Tensor float8_codes(const Tensor& x, const Tensor& scales) {
  return (x / scales).clamp(-kLargestFloat8, kLargestFloat8).to(at::kFloat8_e4m3fn);
}

// 1 where a gradient passes; undefined: everywhere.
Tensor within(const Tensor& weight_OI, Grid grid, std::int64_t group) {
  if (is_floating(grid)) return {};
  const Tensor codes = rounded(weight_OI, grid, group).codes_OGI;
  return (codes.ge(-last_code(grid) - 1) & codes.le(last_code(grid))).view_as(weight_OI);
}

Tensor masked(const Tensor& d, const Tensor& mask) { return mask.defined() ? d.masked_fill(mask.logical_not(), 0) : d; }

class WeightFunction : public torch::autograd::Function<WeightFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& weight_OI, std::int64_t grid, std::int64_t group,
                        std::int64_t sum) {
    ctx->save_for_backward({weight_OI});  // which lies there anyway
    ctx->saved_data["grid"] = grid, ctx->saved_data["group"] = group, ctx->saved_data["sum"] = sum;
    return off_grid(on_grid(weight_OI, static_cast<Grid>(grid), group));
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto grid = static_cast<Grid>(ctx->saved_data["grid"].toInt());
    const std::int64_t group = ctx->saved_data["group"].toInt();
    Tensor made = masked(grads[0], within(ctx->get_saved_variables()[0], grid, group));
    GradientSum* sum = to_sum(ctx->saved_data["sum"].toInt());
    if (sum && sum->takes()) {
      sum->full() ? sum->sum.add_(made) : sum->sum.copy_(made);
      sum->fill();
      made = Tensor();
    }
    return {made, {}, {}, {}};
  }
};

struct Rows {
  Tensor made, mask;  // mask undefined: gradients pass everywhere
};
Rows rounded_rows(const Tensor& given, Grid grid) {
  const Tensor x = wide(given);
  if (is_floating(grid)) {
    const Tensor scales = float8_scales(x, x.scalar_type());
    return {(float8_codes(x, scales).to(x.scalar_type()) * scales).to(given.scalar_type()), {}};
  }
  HONE_ASSERT(grid == Grid::int8);
  const double last = last_code(grid), first = -last - 1;
  const Tensor low = x.amin(-1, /*keepdim=*/true).clamp_max(0), high = x.amax(-1, /*keepdim=*/true).clamp_min(0);
  const Tensor scales = ((high - low) / (last - first)).clamp_min(least_of(x.scalar_type()));
  const Tensor zeros = (first - at::round(low / scales)).clamp(first, last);
  const Tensor codes = at::round(x * scales.reciprocal()) + zeros;
  const Tensor made = (codes.clamp(first, last) - zeros) * scales;
  return {made.to(given.scalar_type()), codes.ge(first) & codes.le(last)};
}

class RowsFunction : public torch::autograd::Function<RowsFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, std::int64_t grid) {
    Rows rows = rounded_rows(x, static_cast<Grid>(grid));
    if (rows.mask.defined()) ctx->save_for_backward({rows.mask});
    return rows.made;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {masked(grads[0], saved.empty() ? Tensor() : saved[0]), {}};
  }
};

}  // namespace

OnGrid on_grid(const Tensor& weight_OI, Grid grid, std::int64_t group) {
  const c10::NoGradGuard no_grad;
  if (is_floating(grid)) {
    const Tensor x_OGI = wide(by_groups(weight_OI, group)), scales = float8_scales(x_OGI, weight_OI.scalar_type());
    return {grid, float8_codes(x_OGI, scales).view_as(weight_OI), scales.squeeze(-1).to(weight_OI.scalar_type())};
  }
  const Rounded made = rounded(weight_OI, grid, group);
  const double last = last_code(grid);
  return {grid, made.codes_OGI.clamp(-last - 1, last).to(at::kChar).view_as(weight_OI),
          made.scales_OG1.squeeze(-1).to(weight_OI.scalar_type())};
}

Tensor off_grid(const OnGrid& made) {
  const c10::NoGradGuard no_grad;
  const auto type = made.scales_OG.scalar_type();
  const Tensor scales_OG1 = wide(made.scales_OG).unsqueeze(-1);
  const std::int64_t group = made.codes_OI.size(1) / std::max<std::int64_t>(1, made.scales_OG.size(1));
  const Tensor codes_OGI = by_groups(made.codes_OI.to(scales_OG1.scalar_type()), group);
  return (codes_OGI * scales_OG1).to(type).view_as(made.codes_OI);
}

Tensor fake_quantized(const Tensor& weight_OI, Grid grid, std::int64_t group, GradientSum* sum) {
  return WeightFunction::apply(weight_OI, static_cast<std::int64_t>(grid), group, to_number(sum));
}

Tensor fake_quantized_rows(const Tensor& x, Grid grid) {
  return RowsFunction::apply(x, static_cast<std::int64_t>(grid));
}

}  // namespace hone::ops
