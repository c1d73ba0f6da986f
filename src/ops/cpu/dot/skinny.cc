// Products with few rows; compiled once per instruction set.
#include "ops/cpu/dot/skinny.h"

#include "ops/cpu/dot/rows-inl.h"
#include "ops/cpu/math-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

#if defined(HONE_DOTS)
template <class T>
void multiply_tiles(const SkinnyProduct<T>& p) {
  using L = Dots<T>;
  each_sum<L>(RowsByRows<T>{p.x, p.weight, p.rows, p.in, p.outs},
              [&](std::int64_t row, std::int64_t out, float* sums, std::int64_t count) {
                T* y = p.y + row * p.stride + out;
                if (p.bias)
                  for (std::int64_t o = 0; o < count; ++o) sums[o] += load(p.bias + out + o);
                if (count == L::kOuts)  // a number known here makes it one vector
                  for (int o = 0; o < L::kOuts; ++o) store(y + o, sums[o]);
                else
                  for (std::int64_t o = 0; o < count; ++o) store(y + o, sums[o]);
              });
}
#endif

template <class T>
void multiply_plainly(const SkinnyProduct<T>& p) {
  using W = Wide<T>;
  for (std::int64_t o = 0; o < p.outs; ++o)
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const T *x = p.x + r * p.in, *weight = p.weight + o * p.in;
      const W sum = sum_over<W>(p.in, [&](std::int64_t i) { return load(x + i) * load(weight + i); });
      store(p.y + r * p.stride + o, p.bias ? sum + load(p.bias + o) : sum);
    }
}

}  // namespace

template <class T>
SkinnyKernels<T> skinny_kernels() {
#if defined(HONE_DOTS)
  if constexpr (!std::is_same_v<T, double>) return {multiply_tiles<T>};
#endif
  return {multiply_plainly<T>};
}
HONE_INSTANTIATE_KERNELS(SkinnyKernels, skinny_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
