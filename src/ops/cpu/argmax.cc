// The place of the largest value; compiled once per instruction set.
#include "ops/cpu/argmax.h"

#include <algorithm>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
std::int64_t find(const T* x, std::int64_t count) {
  using W = Wide<T>;
  const W most = fold_over<W>(
      count, W(-INFINITY), [&](std::int64_t i, auto part) { return load(x + i, part); },
      [](auto a, auto b) { return larger(b, a); });  // in this order what is not a number is left out
  constexpr std::int64_t kBlock = 256;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    Ints<W> equal = {};
    each_vector<W>(end - begin, [&](std::int64_t i, auto part) { equal |= load(x + begin + i, part) == most; });
    bool here = false;
    for (int lane = 0; lane < kLanes<W>; ++lane) here |= equal[lane] != 0;
    for (std::int64_t i = begin; here && i < end; ++i)
      if (load_one(x + i) == most) return i;
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
