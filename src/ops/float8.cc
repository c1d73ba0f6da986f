// Which factors a product in fp8 has, and where its result goes.
#include "ops/float8.h"

#include <ATen/ATen.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/kernels.h"
#include "ops/matmul.h"

namespace hone::ops {
namespace {

// Gradients have a wider range and need fewer digits, unless each row has a scale of its own.
Float8Format format_of(Float8 recipe, bool is_gradient) {
  HONE_ASSERT(recipe != Float8::off);
  const bool by_rows = recipe == Float8::rowwise;
  return {is_gradient && !by_rows ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn, by_rows};
}

Float8Matrix cast(const at::Tensor& x, const Float8Format& format, bool turned) {
  const sections::Timed section(sections::Section::elementwise);
  return backend_of(x).products.to_float8(x, format, turned);
}

void multiply(at::Tensor& out, const at::Tensor& like, const std::vector<Float8Factors>& factors, bool add, bool fast) {
  const sections::Timed section(sections::Section::matmul);
  for (const Float8Factors& f : factors)
    sections::add_flop(2.0 * static_cast<double>(out.numel()) * static_cast<double>(f.a_MK.values_RK.size(1)));
  backend_of(like).products.float8_into(out, factors, add, fast);
}

}  // namespace

Float8By float8_on(at::Device device) {
  if (!use_kernels()) return Float8By::nothing;
  const at::Tensor like = at::empty({0}, at::TensorOptions(device).dtype(at::kBFloat16));
  const auto by = backend_of(like).products.float8_by;
  return by ? by(like) : Float8By::emulation;
}

const Float8Matrix& Float8Source::form(std::vector<std::pair<Float8, Float8Matrix>>& made, Float8 recipe,
                                       bool turned) {
  for (const auto& [known, matrix] : made)
    if (known == recipe) return matrix;
  return made.emplace_back(recipe, cast(x_NC_, format_of(recipe, is_gradient_), turned)).second;
}
const Float8Matrix& Float8Source::rows(Float8 recipe) { return form(rows_, recipe, false); }
const Float8Matrix& Float8Source::columns(Float8 recipe) { return form(columns_, recipe, true); }

Float8Factors float8_forward(Float8Source& x_NI, const at::Tensor& weight_OI, Float8 recipe) {
  return {x_NI.rows(recipe), cast(weight_OI, format_of(recipe, false), /*turned=*/false)};
}
Float8Factors float8_back(Float8Source& dy_NO, const at::Tensor& weight_OI, Float8 recipe) {
  return {dy_NO.rows(recipe), cast(weight_OI, format_of(recipe, false), /*turned=*/true)};
}

void float8_into(at::Tensor& out_MN, const std::vector<Float8Factors>& factors, const std::vector<Factors>& others,
                 bool fast) {
  if (others.empty()) return multiply(out_MN, out_MN, factors, /*add=*/false, fast);
  at::Tensor sum = at::empty(out_MN.sizes(), out_MN.options().dtype(at::kFloat));
  multiply(sum, out_MN, factors, /*add=*/false, fast);
  matmul_into(sum, others, /*add=*/true);
  out_MN.copy_(sum);
}

at::Tensor float8_weight_gradient(Float8Source& dy_NO, Float8Source& x_NI, Float8 recipe, at::ScalarType type,
                                  GradientSum* sum) {
  const Float8Factors factors{dy_NO.columns(recipe), x_NI.columns(recipe)};
  const auto options = factors.a_MK.inverse_scale_R1.options();
  if (sum && sum->takes()) {
    multiply(sum->sum, factors.a_MK.inverse_scale_R1, {factors}, sum->full(), /*fast=*/false);
    sum->fill();
    return {};
  }
  at::Tensor made = at::empty({factors.a_MK.values_RK.size(0), factors.b_NK.values_RK.size(0)}, options.dtype(type));
  multiply(made, factors.a_MK.inverse_scale_R1, {factors}, /*add=*/false, /*fast=*/false);
  return made;
}

}  // namespace hone::ops
