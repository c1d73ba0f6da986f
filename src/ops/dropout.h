// Dropout by counter: whether a number is kept is a function of the seed and of its place alone, so that nothing is
// stored for the backward pass, and neither threads nor kernels change it.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/dropout_words.h"

namespace hone::ops {

// x with each number made 0 at the rate, in [0, 1), and otherwise divided by 1 - rate; computed in fp32 at least. The
// last dimension's places are columns, all others together rows, as the seed counts them.
at::Tensor seeded_dropout(const at::Tensor& x, double rate, const DropoutSeed& seed);

namespace reference {
at::Tensor seeded_dropout(const at::Tensor& x, double rate, const DropoutSeed& seed);
}  // namespace reference

}  // namespace hone::ops
