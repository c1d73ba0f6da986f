// Products in fp8 where no hardware has them: values are rounded to fp8 and taken back, and multiplied in fp32.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "ops/primitives.h"

namespace hone::ops {

Float8Matrix emulated_to_float8(const at::Tensor& x_RC, const Float8Format& format, bool turned);
at::Tensor from_float8(const Float8Matrix& x);  // [R, K] in fp32

// kInto: the table's `into`.
template <auto kInto>
void emulated_float8_into(at::Tensor& out_MN, const std::vector<Float8Factors>& factors, bool add, bool /*fast*/) {
  std::vector<Factors> wide;
  for (const Float8Factors& f : factors) wide.push_back({from_float8(f.a_MK), from_float8(f.b_NK).t()});
  if (out_MN.scalar_type() == at::kFloat) return kInto(out_MN, wide, add);
  at::Tensor sum = at::empty(out_MN.sizes(), out_MN.options().dtype(at::kFloat));
  kInto(sum, wide, false);
  out_MN.copy_(sum);
}

}  // namespace hone::ops
