// Sums of columns: their meaning, and the same by the device's table.
#include "ops/column_sum.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "hone/error.h"
#include "ops/backend.h"

namespace hone::ops {
namespace reference {

at::Tensor column_sum(const at::Tensor& x) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  return at::sum(rows, {0}, /*keepdim=*/false, at::toOpMathType(x.scalar_type())).to(x.scalar_type());
}

}  // namespace reference

at::Tensor join_sums(const at::Tensor& sums_BO, at::ScalarType type) {
  at::Tensor made = at::empty({sums_BO.size(1)}, sums_BO.options().dtype(type));
  backend_of(made).sums.join(sums_BO, {made, false});  // a table may take what is summed in, and not the sums' type
  return made;
}

at::Tensor column_sum(const at::Tensor& x) {
  const Backend* backend = x.numel() == 0 ? nullptr : backend_for({x});
  if (!backend) return reference::column_sum(x);
  return join_sums(backend->sums.columns(x), x.scalar_type());
}

at::Tensor row_gradient(const at::Tensor& sums_BO, at::ScalarType type, GradientSum* sum) {
  if (!sum || !sum->takes()) return join_sums(sums_BO, type);
  HONE_ASSERT(sum->sum.is_contiguous());
  backend_of(sums_BO).sums.join(sums_BO, {sum->sum, sum->full()});
  sum->fill();
  return {};
}

at::Tensor bias_gradient(const at::Tensor& dy, GradientSum* sum) {
  const Backend* backend = dy.numel() == 0 ? nullptr : backend_for({dy});
  if (!backend) return reference::column_sum(dy);
  return row_gradient(backend->sums.columns(dy), dy.scalar_type(), sum);
}

}  // namespace hone::ops
