// The gradient of a product's weight.
#include "ops/weight_gradient.h"

#include <ATen/ATen.h>

#include "ops/matmul.h"

namespace hone::ops {

at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI, GradientSum* sum) {
  if (sum && sum->takes()) {
    matmul_into(sum->sum, {{dy_NO.t(), x_NI}}, sum->full());
    sum->fill();
    return {};
  }
  at::Tensor made = at::empty({dy_NO.size(1), x_NI.size(1)}, x_NI.options());
  matmul_into(made, {{dy_NO.t(), x_NI}});
  return made;
}

}  // namespace hone::ops
