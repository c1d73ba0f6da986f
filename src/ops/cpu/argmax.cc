// The place of the largest value; compiled once per instruction set.
#include "ops/cpu/argmax.h"

#include <algorithm>

#include "ops/cpu/math-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
std::int64_t find(const T* x, std::int64_t count) {
  const Wide<T> most = max_over<Wide<T>>(count, [&](std::int64_t i) { return load(x + i); });
  constexpr std::int64_t kBlock = 256;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    int equal = 0;
    for (std::int64_t i = begin; i < end; ++i) equal |= load(x + i) == most;
    for (std::int64_t i = begin; equal && i < end; ++i)
      if (load(x + i) == most) return i;
  }
  return 0;  // nothing but values that are not numbers
}

}  // namespace

template <class T>
ArgmaxKernels<T> argmax_kernels() {
  return {find<T>};
}
HONE_INSTANTIATE_KERNELS(ArgmaxKernels, argmax_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
