// Matrix products into memory that is there already: what the training step spends most of its time on.
//
// Letters: M rows, N columns, K what is summed over, S rows by groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "ops/primitives.h"
#include "ops/row_groups.h"

namespace hone::ops {

// out_MN = the sum of all a b, or out_MN + that sum if `add`. out_MN has the factors' type, or is fp32 for bf16
// factors; `add` needs it to be the type that sums are made in (fp32, or fp64 for fp64). At every level sums are made
// in fp32 at least, over the depth and over all factors, and rounded once, if out_MN is bf16. By kernels of ours
// (library_multiplies() of kernels.h says for which types there are others) rows do not depend on one another: a row
// has the same bits however many others there are. No gradient.
void matmul_into(at::Tensor& out_MN, const std::vector<Factors>& factors, bool add = false);
// out_MN, of the factors' type, = the sum of all a b + bias_N, rounded once as well; on a GPU with several factors that
// are rounded, twice. No gradient.
void matmul_with_bias_into(at::Tensor& out_MN, std::vector<Factors> factors, const at::Tensor& bias_N);

// The same for each group of rows: ops/backend.h. out_SN has the factors' type. No gradient.
void grouped_matmul_into(at::Tensor& out_SN, const std::vector<GroupedFactors>& factors, const RowGroups& groups);
void matmul_over_groups(const at::Tensor& a_SM, const at::Tensor& b_SN, const RowGroups& groups,
                        const std::vector<Target>& to_MN);

// A right factor of several products, rearranged for them once. Lives no longer than the matrix stays as it is; one
// thread.
class RightFactor {
 public:
  explicit RightFactor(at::Tensor b_KN) : b_KN_(std::move(b_KN)) {}
  void multiply_into(at::Tensor& out_MN, const at::Tensor& a_MK);  // out_MN = a_MK b_KN, of the factors' type

 private:
  at::Tensor b_KN_, packed_;
};

}  // namespace hone::ops
