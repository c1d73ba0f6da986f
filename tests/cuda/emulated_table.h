// CUDA's table of primitives with its kernels on the emulated GPU, for tensors in host memory. Matrix products of
// many rows and flash attention, which are LibTorch's and need a GPU, are the reference's.
#pragma once

#include <functional>
#include <vector>

#include "ops/backend.h"

namespace hone::ops {

const Backend& emulated_backend();
// The GPU's table of products as it is: what it leaves to LibTorch is computed by LibTorch here, too.
Backend::Products emulated_products();
std::int64_t emulated_launches();  // so far
int& emulated_capability();        // of the GPU, as 90 for 9.0; 0 at first
int& emulated_multiprocessors();   // 1 at first

// What `work` launches, in one chain, which has a block of every multiprocessor, and then copies of what it gives.
// Throws where a launch can be no step.
std::vector<at::Tensor> emulated_chain(const std::function<std::vector<at::Tensor>()>& work);

}  // namespace hone::ops
