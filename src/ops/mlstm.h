// A matrix memory (mLSTM; Beck et al., 2024, arXiv:2405.04517): per head a matrix that each token of a document is
// added to, as the product of its key and value, after what is there has been forgotten in part; queries read it.
//
//   C_t = sigmoid(forget_t) C_(t-1) + e^(input_t) k_t v_t^T,   n_t = sigmoid(forget_t) n_(t-1) + e^(input_t) k_t
//   h_t = C_t^T q_t / (max(|n_t q_t|, 1) + eps e^(m_t)),       q_t over the square root of its size
//
// computed with C_t and n_t over e^(m_t), m_t = max(log sigmoid(forget_t) + m_(t-1), input_t), m_0 = 0, so that nothing
// overflows.
//
// Letters: N tokens, H heads, K size of queries and keys, V size of values, R rows of a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/documents.h"
#include "ops/primitives.h"

namespace hone::ops {

// [N,H,V], of q's type; rows outside all documents are 0. Gates [N,H] in fp32 (fp64).
at::Tensor mlstm(const MlstmInput& input, const Documents& documents, double eps);
// Of documents that go on with a past, and add themselves to it. No gradient.
at::Tensor mlstm_on(const MlstmInput& input, const Documents& documents, double eps, const MlstmPast& past);

namespace reference {
// `memory` is that of one row, [H,K,V], [H,K] and [H], and becomes what the document leaves behind; undefined tensors:
// nothing is there.
at::Tensor mlstm(const MlstmInput& input, MlstmMemory& memory, double eps);  // of one document
}  // namespace reference

}  // namespace hone::ops
