// Products with few rows; compiled once per instruction set.
#include "ops/cpu/products/skinny.h"

#include "ops/cpu/products/rows-inl.h"
#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

#if defined(HONE_DOTS)

// Of one value, so that a loop of a few of them becomes one short vector.
template <class T>
HONE_INLINE void put(T* to, float x) {
  if constexpr (std::is_same_v<T, bf16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    to->x = static_cast<std::uint16_t>(x != x ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  } else {
    *to = x;
  }
}

template <class T>
void multiply_tiles(const SkinnyProduct<T>& p) {
  using L = Dots<T>;
  each_sum<L>(RowsByRows<T>{p.x, p.weight, p.rows, p.in, p.outs},
              [&](std::int64_t row, std::int64_t out, float* sums, std::int64_t count) {
                T* y = p.y + row * p.stride + out;
                if (p.bias)
                  for (std::int64_t o = 0; o < count; ++o) sums[o] += load_one(p.bias + out + o);
                if (count == L::kOuts)  // a number known here makes it one vector
                  for (int o = 0; o < L::kOuts; ++o) put(y + o, sums[o]);
                else
                  for (std::int64_t o = 0; o < count; ++o) put(y + o, sums[o]);
              });
}

#endif

template <class T>
void multiply_plainly(const SkinnyProduct<T>& p) {
  using W = Wide<T>;
  for (std::int64_t o = 0; o < p.outs; ++o)
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const T *x = p.x + r * p.in, *weight = p.weight + o * p.in;
      const W sum =
          sum_over<W>(p.in, [&](std::int64_t i, auto part) { return load(x + i, part) * load(weight + i, part); });
      store_one(p.y + r * p.stride + o, p.bias ? sum + load_one(p.bias + o) : sum);
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
