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

std::vector<at::Tensor> grouped_weight_gradients(const at::Tensor& dy_SO, const at::Tensor& x_SI,
                                                 const RowGroups& groups, const std::vector<WeightPlace>& places) {
  std::vector<at::Tensor> made(places.size());
  std::vector<Target> targets(places.size());
  bool any = false;
  for (std::size_t g = 0; g < places.size(); ++g) {
    if (!places[g].wanted) continue;
    GradientSum* const sum = places[g].sum;
    any = true;
    if (sum && sum->takes()) {
      targets[g] = {sum->sum, sum->full()};
      sum->fill();
    } else {
      targets[g].out = made[g] = at::empty({dy_SO.size(1), x_SI.size(1)}, x_SI.options());
    }
  }
  if (any) matmul_over_groups(dy_SO, x_SI, groups, targets);
  return made;
}

}  // namespace hone::ops
