// Who may look at whom, by a mask.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hone/op_options.h"

namespace hone::ops::reference {

// [queries, keys]: which keys the queries, which stand at the last of them, may see.
at::Tensor visible(std::int64_t queries, std::int64_t keys, const Mask& mask, at::Device device);

}  // namespace hone::ops::reference
