// A state space with a number for each head's decay (state space duality, Mamba-2; Dao and Gu, 2024,
// arXiv:2405.21060): per head a matrix that is forgotten in part, takes each token in, and is read.
//
//   h_t = e^(decay_t) h_(t-1) + step_t b_t x_t^T,   y_t = h_t^T c_t + skip x_t
//
// where decay_t = step_t A. B and C of a group serve H / G heads, one behind another.
//
// Letters: N tokens, G groups of B and C, H heads, K size of the state, V size of a head's x, R rows of a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/documents.h"
#include "ops/primitives.h"

namespace hone::ops {

// [N,H,V], of x's type; rows outside all documents are 0. decay, step [N,H] and skip [H] in fp32 (fp64).
at::Tensor ssd(const SsdInput& input, const Documents& documents);
// Of documents that go on with a past, and add themselves to it. No gradient.
at::Tensor ssd_on(const SsdInput& input, const Documents& documents, const SsdPast& past);

namespace reference {
// Token by token. `state_HKV` becomes what the document leaves behind; undefined: it begins with zeros.
at::Tensor ssd(const SsdInput& input, at::Tensor& state_HKV);  // of one document
}  // namespace reference

}  // namespace hone::ops
