// Rounding to fp8 in plain ATen, as torchao does it.
#include "ops/float8_emulation.h"

namespace hone::ops {
namespace {

double largest_of(at::ScalarType type) { return type == at::kFloat8_e5m2 ? 57344 : 448; }

// The largest power of two that is no larger. Beside one of them a logarithm may be rounded to either side.
at::Tensor cut_to_power_of_two(const at::Tensor& x) {
  const at::Tensor near = at::exp2(at::log2(x.to(at::kDouble)).floor()).to(at::kFloat);
  const at::Tensor raised = at::where(near * 2 <= x, near * 2, near);
  return at::where(raised > x, raised / 2, raised);
}

}  // namespace

Float8Matrix emulated_to_float8(const at::Tensor& x_RC, const Float8Format& format, bool turned) {
  const at::Tensor x = (turned ? x_RC.t() : x_RC).to(at::kFloat).contiguous(), size = x.abs();
  const at::Tensor largest = format.by_rows ? size.amax(1, /*keepdim=*/true) : size.amax().view({1, 1});
  const double most = largest_of(format.type);
  at::Tensor scale = (most / largest.to(at::kDouble).clamp_min(kFloat8Smallest)).to(at::kFloat);
  if (format.by_rows) scale = cut_to_power_of_two(scale);
  return {(x * scale).clamp_(-most, most).to(format.type), scale.reciprocal()};
}

at::Tensor from_float8(const Float8Matrix& x) { return x.values_RK.to(at::kFloat).mul_(x.inverse_scale_R1); }

}  // namespace hone::ops
