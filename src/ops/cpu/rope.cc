// Rotary position embedding, forward and backward; compiled once per instruction set.
#include "ops/cpu/rope.h"

#include "ops/cpu/math-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void rotate_tokens(const T* x, const Wide<T>* cos, const Wide<T>* sin, const std::int64_t* rows, std::int64_t tokens,
                   std::int64_t heads, std::int64_t half, bool back, T* y) {
  const Wide<T> sign = back ? -1 : 1;
  for (std::int64_t n = 0; n < tokens; ++n) {
    const Wide<T>*c = cos + rows[n] * half, *s = sin + rows[n] * half;
    for (std::int64_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half)
      for (std::int64_t i = 0; i < half; ++i) {
        const Wide<T> a = load(x + i), b = load(x + half + i), turn = sign * s[i];
        store(y + i, a * c[i] - b * turn);
        store(y + half + i, b * c[i] + a * turn);
      }
  }
}

}  // namespace

template <class T>
RopeKernels<T> rope_kernels() {
  return {rotate_tokens<T>};
}
HONE_INSTANTIATE_KERNELS(RopeKernels, rope_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
