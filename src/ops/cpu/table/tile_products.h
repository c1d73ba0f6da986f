// bf16 products by AMX.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/primitives.h"

namespace hone::ops::cpu_table {

// As Backend::Products. REQUIRES: the level is amx; factors are bf16, each with a stride of 1, and not empty; rows of
// out are dense; out is bf16, or fp32.
void tile_product_into(at::Tensor& out_MN, const std::vector<Factors>& factors, bool add);
void tile_product_with_packed(at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor& packed);

}  // namespace hone::ops::cpu_table
