// Every kernel of src/ops/cuda/kernels for every type of values, on the emulated GPU, by its name.
#pragma once

#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/emulated_gpu.h"

namespace emulated {

#include "ops/cuda/kernels/types.h"
//
#include "ops/cuda/kernels/cores.h"
//
#include "ops/cuda/kernels/squares.h"

// A kernel that takes its arguments as the driver does: by the addresses of their values. sizes: of these.
struct Callable {
  std::function<void(const std::vector<void*>&)> call;
  std::vector<std::size_t> sizes;
};

template <class... All>
Callable callable(void (*kernel)(All...)) {
  return {[kernel](const std::vector<void*>& at) {
            [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
              kernel(*static_cast<All*>(at[kAt])...);
            }(std::index_sequence_for<All...>());
          },
          {sizeof(All)...}};
}

// By "source/kernel".
using Kernels = std::map<std::string, Callable>;

namespace of_float {
#define HONE_VALUE float
#include "cuda/all_kernels.h"
#undef HONE_VALUE
}  // namespace of_float
namespace of_double {
#define HONE_VALUE double
#include "cuda/all_kernels.h"
#undef HONE_VALUE
}  // namespace of_double
namespace of_bf16 {
#define HONE_VALUE Bf16
#include "cuda/all_kernels.h"
#undef HONE_VALUE
}  // namespace of_bf16
namespace of_half {
#define HONE_VALUE Half
#include "cuda/all_kernels.h"
#undef HONE_VALUE
}  // namespace of_half

}  // namespace emulated
