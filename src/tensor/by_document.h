// Between the tokens of a batch and its documents.
//
// Letters: B batch, T time, N tokens (B * T), S documents.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/batch.h"

namespace hone {

// Which document each token belongs to, int64 [N]: its number in Batch::docs; of padding S. On the batch's device.
Tensor documents_of_tokens(const Batch& batch);

// The sum of each document's values, in fp64: of hundreds of log-probabilities fp32 would leave four digits behind the
// point, and what is learnt from is differences. Those of padding are left out. A graph through it.
Tensor sums_by_document(const Tensor& values_N, const Batch& batch);
Tensor sums_by_document(const Tensor& values_N, const Tensor& documents_N, std::int64_t documents);
// Of each token the value of its document; 0 on padding. A graph through it.
Tensor each_token(const Tensor& values_S, const Tensor& documents_N);

}  // namespace hone
