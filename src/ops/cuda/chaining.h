// Chains (chain.h) in what a stream remembers, in place of the launches that they stand for.
#pragma once

#include <ATen/core/Tensor.h>
#include <cuda.h>

#include <vector>

namespace hone::ops::cuda_table {

// REQUIRES: remembered by one stream of the current device, which remembers no more, and not made ready yet. What the
// chains read and write, which is to live as long as the graph is launched; empty where there is nothing to chain.
std::vector<at::Tensor> chain_launches(CUgraph graph);

}  // namespace hone::ops::cuda_table
