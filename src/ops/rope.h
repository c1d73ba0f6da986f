// Rotary position embedding (Su et al., 2021), in Hugging Face's layout: the two halves of a head are rotated together.
//
// Letters: N tokens, H heads, G key/value heads, K head size.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/primitives.h"

namespace hone::ops {

// [N,H,K] -> [N,H,K]: (a, b) of each pair becomes (a cos - b sin, b cos + a sin), computed in fp32 at least.
at::Tensor rope(const at::Tensor& x_NHK, const RopeTable& table);

// q and k so, and v as it is: for a pass of which all three have gradients, which a device may lay side by side, in one
// matrix, as they are factors of one sum of products where q, k and v are products of one input.
struct Rotated {
  at::Tensor q_NHK, k_NGK, v_NGK;
};
Rotated rope_beside(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK, const RopeTable& table);

// For ops that contain rope, outside autograd: the same in x's place; back: the rotation of its gradient. x may be a
// slice of wider rows, for instance the heads of q and k of a product whose rows are [q|k|v].
void rope_in_place(const at::Tensor& x_NHK, const RopeTable& table, bool back);

// Whether a device's kernels rotate x by the table.
bool backend_rotates(const at::Tensor& x_NHK, const RopeTable& table);

namespace reference {
at::Tensor rope(const at::Tensor& x_NHK, const RopeTable& table);
}  // namespace reference

}  // namespace hone::ops
