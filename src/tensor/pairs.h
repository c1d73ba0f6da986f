// The pairs of a batch of preference records.
//
// Letters: P pairs.
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

Tensor documents_with(Role role, const Batch& batch);  // the numbers of those in Batch::docs, int64, on its device

}  // namespace hone
