// Numbers as they will be once they are quantized: rounded to a grid and back, in the type that they come in. The
// arithmetic is torchao's (its quantizers that are symmetric, or of tokens), whole numbers rounded to the nearest even.
//
// Letters: N tokens, I inputs, O outputs, G groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/gradient_sum.h"
#include "hone/quantization.h"

namespace hone::ops {

// A weight on a grid: of its inputs, `group` share a scale that is multiplied with their codes, rounded to the weight's
// type; group 0: all of an output.
//   int4, int8  codes from -2^(b-1) to 2^(b-1) - 1, the scale the largest value / (2^b - 1) * 2
//   float8      numbers of E4M3, the scale the largest value / 448
struct OnGrid {
  Grid grid = Grid::none;
  at::Tensor codes_OI;   // int8, float8_e4m3fn
  at::Tensor scales_OG;  // of the weight's type
};
// REQUIRES: two dimensions, the group divides the inputs, the grid is not none.
OnGrid on_grid(const at::Tensor& weight_OI, Grid grid, std::int64_t group);
at::Tensor off_grid(const OnGrid& made);  // each number computed in fp32 and rounded once

// off_grid(on_grid(weight)); its gradient is the weight's, but for values beyond the last code, which have none. sum:
// takes it; null: autograd does.
at::Tensor fake_quantized(const at::Tensor& weight_OI, Grid grid, std::int64_t group, GradientSum* sum);

// The same of what weights are multiplied with, each row by itself. int8: from its least to its largest value, with a
// code that is 0.
at::Tensor fake_quantized_rows(const at::Tensor& x, Grid grid);

}  // namespace hone::ops
