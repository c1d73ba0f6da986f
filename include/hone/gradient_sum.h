// Where the backward passes of a step add a weight's gradient up, instead of in autograd's grad().
#pragma once

#include <ATen/core/Tensor.h>

namespace hone {

// Ops that are given one write to it without a cast or a temporary.
struct GradientSum {
  enum class State {
    empty,  // what `sum` holds is of no meaning yet
    lent,   // an op's forward pass has put there what its backward pass will scale: others leave theirs to autograd
    full    // gradients so far
  };
  at::Tensor sum;  // of the weight's shape, fp32 (fp64 for an fp64 weight)
  State state = State::empty;

  bool takes() const { return state != State::lent; }
  bool full() const { return state == State::full; }
  void fill() { state = State::full; }
};

}  // namespace hone
