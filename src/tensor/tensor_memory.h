// Where LibTorch's CPU tensors get their memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace hone {

// Smaller tensors are malloc's.
inline constexpr std::size_t kLeastInRegion = 64 << 10;

// From now on large CPU tensors lie in one region of addresses as large as the machine's memory: a step's tensors fill
// each other's places exactly, which malloc's aligned blocks do not. Freed memory is kept for later tensors. Once per
// process, before the first tensor. False, and nothing changes: the system gives no such region (a limit of address
// space, strict overcommit), or a sanitizer watches memory.
bool use_tensor_region();

// Zeros of a tensor's shape, type and device. Pages that the system has not given yet come zeroed: they are asked for
// by all threads, and not written once more.
at::Tensor fresh_zeros_like(const at::Tensor& x);

// Bytes of that region that tensors lie in; 0: there is none.
std::size_t tensor_region_in_use();

}  // namespace hone
