// Looks up rows of a table; the gradient is summed in a fixed order, so equal runs give equal bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/gradient_sum.h"

namespace hone::ops {

// table_VD[ids]. Throws Error(data) for an id outside [0, V); on a device its own look-up fails for one. Ids equal to
// no_gradient_id add nothing to the table's gradient (what Hugging Face does for the padding id); -1 = none. `sum`
// takes the gradient; null: autograd does.
at::Tensor embedding(const at::Tensor& table_VD, const at::Tensor& ids, std::int64_t no_gradient_id = -1,
                     GradientSum* sum = nullptr);

// Error(data) for an id outside of so many rows, where ids lie on the host.
void check_ids(const at::Tensor& ids, std::int64_t rows);

namespace reference {
at::Tensor embedding(const at::Tensor& table_VD, const at::Tensor& ids, std::int64_t no_gradient_id = -1);
}  // namespace reference

}  // namespace hone::ops
