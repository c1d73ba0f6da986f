// Where the backward passes of a step add a weight's gradient up, instead of in autograd's grad().
#pragma once

#include <ATen/core/Tensor.h>

namespace hone {

// Ops that are given one write to it without a cast or a temporary.
struct GradientSum {
  at::Tensor sum;        // of the weight's shape, fp32 (fp64 for an fp64 weight)
  bool started = false;  // false: what `sum` holds is of no meaning yet
  // An op's forward pass has put into `sum` what its backward pass will scale and declare started: until then others
  // leave their gradients to autograd.
  bool lent = false;

  bool takes() const { return !lent; }
};

}  // namespace hone
