// Launches kernels of ours (kernels/*.cu) on the GPU of a tensor. Each is compiled for the GPU and the type of values
// when it is launched first (compiler.h), and kept on disk (cache.h).
//
// Thread-safe. Nothing here waits for a GPU, but the first launch of a kernel for its compiler.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

#include "ops/cuda/sources.h"

namespace hone::ops::cuda_table {

// Blocks in two directions; the threads of each, also in two (whole warps of 32 in the first, at most 512 together);
// and how much room they share. early: the kernel itself waits for what was launched before (types.h).
struct Grid {
  std::int64_t x = 1, y = 1;
  int threads = 32, threads_y = 1;
  std::int64_t shared_bytes = 0;
  bool early = false;
};

// A parameter's value, as the kernel's own type has it.
struct Argument {
  void* at;
  std::size_t bytes;
};

// For values of like's type, on its device and the device's current stream. Throws Error(bug) with what the compiler or
// the driver said.
void launch_with(const Kernel& kernel, const at::Tensor& like, const Grid& grid, std::span<const Argument> arguments);

int capability(const at::Tensor& x);  // of its GPU: 90 for 9.0; of the current one where x is on none
std::int64_t multiprocessors(const at::Tensor& x);
std::int64_t most_room(const at::Tensor& x);  // bytes that a block may share
bool has_tensor_cores(const at::Tensor& x);  // that take bf16 and are fed past the registers: 8.0 and later

// Tensors are passed as pointers, undefined ones as null.
inline void* parameter(const at::Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
inline long long parameter(std::int64_t x) { return x; }
inline int parameter(int x) { return x; }
inline int parameter(bool x) { return x ? 1 : 0; }
inline double parameter(double x) { return x; }
template <class T, std::size_t kCount>
std::array<T, kCount> parameter(const std::array<T, kCount>& x) {  // the kernel's List
  return x;
}

template <class... All>
void launch(const Kernel& kernel, const at::Tensor& like, const Grid& grid, const All&... all) {
  std::tuple values{parameter(all)...};
  std::apply(
      [&](auto&... each) {
        const Argument arguments[] = {{&each, sizeof(each)}...};
        launch_with(kernel, like, grid, arguments);
      },
      values);
}

}  // namespace hone::ops::cuda_table
