// What autograd has kept of a weight's gradient, because an op could not add to the sum itself.
#pragma once

#include "hone/gradient_sum.h"
#include "hone/module.h"

namespace hone::nn {

inline void take_gradient(Weight& weight, GradientSum& sum) {
  const Tensor gradient = weight.grad();
  if (!gradient.defined()) return;
  sum.full() ? sum.sum.add_(gradient) : sum.sum.copy_(gradient);
  sum.fill();
  weight.clear_grad();
}

}  // namespace hone::nn
