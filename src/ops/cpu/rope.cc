// Rotary position embedding, forward and backward; compiled once per instruction set.
#include "ops/cpu/rope.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void rotate_tokens(const RopeArgs<T>& a) {
  using W = Wide<T>;
  const W sign = a.back ? -1 : 1;
  const std::int64_t half = a.half;
  for (std::int64_t n = 0; n < a.tokens; ++n) {
    const W *cos = a.cos + a.rows[n] * half, *sin = a.sin + a.rows[n] * half;
    const T* x = a.x + n * a.x_stride;
    T* y = a.y + n * a.y_stride;
    for (std::int64_t h = 0; h < a.heads; ++h, x += 2 * half, y += 2 * half)
      each_vector<W>(half, [&](std::int64_t i, auto part) {
        const Vec<W> first = load(x + i, part), second = load(x + half + i, part), c = load(cos + i, part),
                     s = sign * load(sin + i, part);
        store(y + i, first * c - second * s, part);
        store(y + half + i, second * c + first * s, part);
      });
  }
}

}  // namespace

template <class T>
RopeKernels<T> rope_kernels() {
  return {rotate_tokens<T>};
}
HONE_INSTANTIATE_KERNELS(RopeKernels, rope_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
