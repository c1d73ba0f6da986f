// A state space whose channels have states and decays of their own, which what is read chooses (Mamba; Gu and Dao,
// 2023, arXiv:2312.00752):
//
//   h_t[c,k] = e^(step_t[c] rate[c,k]) h_(t-1)[c,k] + step_t[c] x_t[c] b_t[k],
//   y_t[c] = sum over k of h_t[c,k] c_t[k] + skip[c] x_t[c]
//
// Letters: N tokens, C channels, K states of a channel, R rows of a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/documents.h"
#include "ops/primitives.h"

namespace hone::ops {

// [N,C], of x's type; rows outside all documents are 0. step [N,C], rate [C,K], below 0, and skip [C] in fp32 (fp64).
at::Tensor selective_scan(const ScanInput& input, const Documents& documents);
// Of documents that go on with a past, and add themselves to it. No gradient.
at::Tensor selective_scan_on(const ScanInput& input, const Documents& documents, const ScanPast& past);

namespace reference {
// Token by token. `state_KC` becomes what the document leaves behind; undefined: it begins with zeros.
at::Tensor selective_scan(const ScanInput& input, at::Tensor& state_KC);  // of one document
}  // namespace reference

}  // namespace hone::ops
