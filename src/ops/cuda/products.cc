// Matrix products: cuBLAS's, with sums in fp32 of bf16 and fp16 factors, not rounded on the way where out is wider.
#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

// out (+)= a b where out is wider than the factors.
void multiply_wide(at::Tensor& out, const Factors& f, bool add) {
  if (add)
    at::addmm_out(out, out, f.a_MK, f.b_KN, out.scalar_type());
  else
    at::mm_out(out, f.a_MK, f.b_KN, out.scalar_type());
}

void into(at::Tensor& out, const std::vector<Factors>& factors, bool add) {
  const auto type = factors[0].a_MK.scalar_type(), wide = at::toOpMathType(type);
  const bool narrow_out = out.scalar_type() == type;
  if (type == wide || (factors.size() == 1 && narrow_out) || (!narrow_out && out.scalar_type() != wide))
    return reference_table::products().into(out, factors, add);
  at::Tensor sum = narrow_out ? at::empty(out.sizes(), out.options().dtype(wide)) : out;
  if (narrow_out && add) sum.copy_(out);
  for (const Factors& f : factors) {
    multiply_wide(sum, f, add);
    add = true;
  }
  if (narrow_out) out.copy_(sum);
}

void with_packed(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, at::Tensor& /*packed*/) {
  into(out, {{a, b}}, false);
}

at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation) {
  const std::vector<at::Tensor> both = reference_table::products().skinny(x_RI, {gate, up});
  return elementwise().gated(both[0], both[1], activation);
}

}  // namespace

Backend::Products products() { return {into, with_packed, reference_table::products().skinny, skinny_gated}; }

}  // namespace hone::ops::cuda_table
