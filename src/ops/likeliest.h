// The likeliest token by its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/primitives.h"

namespace hone::ops {

// int64 [R]: of each row the place of its largest value, of equal ones the first; -1 where a value is infinite or not a
// number. Waits for nothing.
at::Tensor likeliest(const at::Tensor& logits_RV);
// And the next step of these rows where it lies.
at::Tensor likeliest_then(const at::Tensor& logits_RV, const NextStep& next);

}  // namespace hone::ops
