// The pairs of a batch of preference records.
//
// Letters: B batch, T time, N tokens (B * T), S documents, P pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/batch.h"

namespace hone {

using at::Tensor;

// Numbers of documents in Batch::docs, int64; both sides of a pair at the same place.
struct Pairs {
  Tensor chosen_P, rejected_P;
  std::int64_t count() const { return chosen_P.numel(); }
};
Pairs pairs_of(const Batch& batch);  // Error(data): a document that is not one of a pair
std::int64_t count_pairs(const Batch& batch);

// The sum of each document's values, in fp64: of hundreds of log-probabilities fp32 would leave four digits behind the
// point, and what is learnt from is differences. Those of padding are left out. A graph through it.
Tensor sums_by_document(const Tensor& values_N, const Batch& batch);

}  // namespace hone
