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
// The gradients of the table's attention, which keeps so many bytes of slopes at most.
AttentionGradients emulated_attention_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                               const Documents& documents, const AttentionOptions& options,
                                               std::int64_t most_kept_bytes);
int& emulated_capability();       // of the GPU, as 90 for 9.0; 0 at first
int& emulated_multiprocessors();  // 1 at first

// What `work` launches, as one chain that has a block of every multiprocessor and is launched several times, and then
// copies of what it gives. Throws where a launch can be no step.
struct EmulatedChain {
  std::vector<at::Tensor> results;
  int steps = 0, depth = 0;
};
EmulatedChain emulated_chain(const std::function<std::vector<at::Tensor>()>& work, int launches,
                             const std::function<void(int)>& before_launch);

}  // namespace hone::ops
