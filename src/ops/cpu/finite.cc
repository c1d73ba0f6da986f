// Whether all values are finite; compiled once per instruction set.
#include "ops/cpu/finite.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// 0 x is 0 for a finite number and for nothing else.
template <class T>
bool all_finite(const T* x, std::int64_t count) {
  using W = Wide<T>;
  return sum_over<W>(count, [&](std::int64_t i, auto part) { return load(x + i, part) * W(0); }) == W(0);
}

}  // namespace

template <class T>
FiniteKernels<T> finite_kernels() {
  return {all_finite<T>};
}
HONE_INSTANTIATE_KERNELS(FiniteKernels, finite_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
