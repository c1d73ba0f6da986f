// What an op that is one pass over memory reads and writes, for hone bench.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "base/sections.h"

namespace hone::ops {

// Of the running section; undefined tensors count nothing.
inline void count_bytes(std::initializer_list<at::Tensor> tensors) {
  if (!sections::running()) return;
  for (const at::Tensor& x : tensors)
    if (x.defined()) sections::add_bytes(static_cast<double>(x.numel()) * static_cast<double>(x.element_size()));
}

}  // namespace hone::ops
