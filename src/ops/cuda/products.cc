// Products by cuBLAS, summed in fp32 whatever their factors are.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops::cuda_table {
namespace {

// sum (fp32 at least) += the products, or becomes them.
void add_up(at::Tensor& sum, const std::vector<Factors>& factors, bool add) {
  const auto type = sum.scalar_type();
  for (const Factors& f : factors) {
    if (f.a_MK.scalar_type() == type)
      add ? at::addmm_out(sum, sum, f.a_MK, f.b_KN) : at::mm_out(sum, f.a_MK, f.b_KN);
    else
      add ? at::addmm_out(sum, sum, f.a_MK, f.b_KN, type) : at::mm_out(sum, f.a_MK, f.b_KN, type);
    add = true;
  }
}

void into(at::Tensor& out, const std::vector<Factors>& factors, bool add) {
  const auto wide = at::toOpMathType(factors[0].a_MK.scalar_type());
  if (out.scalar_type() == wide) return add_up(out, factors, add);
  if (factors.size() == 1 && !add) {
    at::mm_out(out, factors[0].a_MK, factors[0].b_KN);
    return;
  }
  at::Tensor sum = add ? out.to(wide) : at::empty(out.sizes(), out.options().dtype(wide));
  add_up(sum, factors, add);
  out.copy_(sum);
}

void with_packed(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, at::Tensor& /*packed*/) {
  into(out, {{a, b}}, false);
}

}  // namespace

Backend::Products products() {
  const Backend::Products plain = reference_table::products();
  return {into, with_packed, plain.skinny, plain.skinny_gated};
}

}  // namespace hone::ops::cuda_table
