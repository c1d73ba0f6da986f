// The primitives of NVIDIA GPUs: by LibTorch's kernels where they are best, else by ours (kernels/), else as plain ATen
// has them.
#pragma once

#include <algorithm>

#include "ops/backend.h"

namespace hone::ops::cuda_table {

Backend::Products products();
Backend::Attention attention();
Backend::Norms norms();
Backend::Elementwise elementwise();
Backend::Sums sums();

// Kernels of ours are made for these; what else there is (fp16) is computed by plain ATen.
inline bool has_kernel(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kBFloat16;
}
// "rms_norm" -> "rms_norm_bf16".
inline std::string kernel_for(const char* name, at::ScalarType type) {
  return std::string(name) + (type == at::kFloat ? "_float" : type == at::kDouble ? "_double" : "_bf16");
}

// Rows of a kernel that has a block for each: a few blocks for every multiprocessor are enough.
inline std::int64_t blocks_for(std::int64_t rows, std::int64_t most = 2048) { return std::min(rows, most); }
inline std::int64_t threads_for(std::int64_t columns) { return columns > 2048 ? 512 : columns > 512 ? 256 : 128; }

}  // namespace hone::ops::cuda_table
