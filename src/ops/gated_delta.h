// A memory that each token corrects, gated delta rule (Yang et al., 2024, arXiv:2412.06464): per head a matrix that
// keeps a part of what it has, and whose value for the token's key is replaced, as far as the step says.
//
//   S_t = e^(decay_t) S_(t-1) + step_t k_t (v_t - e^(decay_t) S_(t-1)^T k_t)^T,   y_t = S_t^T q_t
//
// with queries and keys over their lengths, sqrt(sum of squares + 1e-6), and queries over the square root of their
// size. A head of queries and keys serves H / G heads of values, one behind another.
//
// Letters: N tokens, G heads of queries and keys, H heads of values, K size of queries and keys, V size of values, R
// rows of a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/documents.h"
#include "ops/primitives.h"

namespace hone::ops {

// [N,H,V], of v's type; rows outside all documents are 0. decay and step [N,H] in fp32 (fp64).
at::Tensor gated_delta(const DeltaInput& input, const Documents& documents);
// Of documents that go on with a past, and correct it. No gradient.
at::Tensor gated_delta_on(const DeltaInput& input, const Documents& documents, const DeltaPast& past);

namespace reference {
// `memory_HKV` becomes what the document leaves behind; undefined: it begins with zeros.
at::Tensor gated_delta(const DeltaInput& input, at::Tensor& memory_HKV);  // of one document
}  // namespace reference

}  // namespace hone::ops
