// Sums of columns: gradients of weights that all rows share.
//
// Letters: N rows, O columns, B blocks of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/gradient_sum.h"

namespace hone::ops {

// x over all its dimensions but the last; summed in fp32 at least, in a fixed order whatever the number of threads.
at::Tensor column_sum(const at::Tensor& x);

// For ops that make such sums on the way: one row of fp32 (fp64) sums per kRowsPerSum rows, later joined to [O].
inline constexpr std::int64_t kRowsPerSum = 64;
inline std::int64_t row_blocks(std::int64_t rows) { return (rows + kRowsPerSum - 1) / kRowsPerSum; }
at::Tensor join_sums(const at::Tensor& sums_BO, at::ScalarType type);

// A weight's gradient that is such a sum: into its GradientSum if that takes it, unrounded, and then nothing is left
// for autograd; else as a tensor in `type`.
at::Tensor row_gradient(const at::Tensor& sums_BO, at::ScalarType type, GradientSum* sum);
at::Tensor bias_gradient(const at::Tensor& dy, GradientSum* sum);  // the same of column_sum(dy)

namespace reference {
at::Tensor column_sum(const at::Tensor& x);
}  // namespace reference

}  // namespace hone::ops
