// How kernels are given the rows of one head.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// Row i begins at data + i * stride.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t stride = 0;
};

}  // namespace hone::ops::cpu
