// Products of few rows with weights, as in decoding: bound by how fast the weights come from memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "hone/op_options.h"
#include "ops/linear_weight.h"

namespace hone::ops {

inline constexpr std::int64_t kSkinnyRows = 16;  // most rows that are called few

// x_RI with each of the weights, all in one parallel region. A row's bits do not depend on the other rows; with AMX, on
// whether there are more than four; on a GPU, than eight. No gradient.
// REQUIRES: backend_for() takes them all; 1 to kSkinnyRows rows; nothing writes the weights directly before.
std::vector<at::Tensor> skinny_products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights);

// gated(x gate, x up), in one parallel region.
at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation);

// Of each group's rows, which follow one another in x_SI, the product with its weight, and what is gated: as these two,
// to the bit, in one parallel region where the device has that. REQUIRES: weights of one shape, as many rows as x has.
at::Tensor skinny_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups);
at::Tensor skinny_gated_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& gates,
                               const std::vector<SkinnyGroup>& ups, Activation activation);

}  // namespace hone::ops
