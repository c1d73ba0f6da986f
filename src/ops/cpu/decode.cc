// Attention of one new token for the query heads that share a key/value head; compiled once per instruction set.
#include "ops/cpu/decode.h"

#include "ops/cpu/math-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class W>
void softmax_in_place(W* x, std::int64_t count) {
  const W most = max_over<W>(count, [&](std::int64_t i) { return x[i]; });
  for (std::int64_t i = 0; i < count; ++i) x[i] = exp_of(x[i] - most);
  const W scale = W(1) / sum_over<W>(count, [&](std::int64_t i) { return x[i]; });
  for (std::int64_t i = 0; i < count; ++i) x[i] *= scale;
}

template <class T>
void attend_one(const T* q, const T* k, const T* v, std::int64_t heads, std::int64_t length, std::int64_t size,
                Wide<T> scale, Wide<T>* room, T* y) {
  using W = Wide<T>;
  W *scores = room, *sums = room + heads * length;
  for (std::int64_t l = 0; l < length; ++l)
    for (std::int64_t h = 0; h < heads; ++h) {
      const T *a = q + h * size, *b = k + l * size;
      scores[h * length + l] = scale * sum_over<W>(size, [&](std::int64_t i) { return load(a + i) * load(b + i); });
    }
  for (std::int64_t h = 0; h < heads; ++h) softmax_in_place(scores + h * length, length);
  for (std::int64_t i = 0; i < heads * size; ++i) sums[i] = 0;
  for (std::int64_t l = 0; l < length; ++l)
    for (std::int64_t h = 0; h < heads; ++h) {
      const W share = scores[h * length + l];
      W* sum = sums + h * size;
      for (std::int64_t i = 0; i < size; ++i) sum[i] += share * load(v + l * size + i);
    }
  for (std::int64_t i = 0; i < heads * size; ++i) store(y + i, sums[i]);
}

}  // namespace

template <class T>
DecodeKernels<T> decode_kernels() {
  return {attend_one<T>};
}
HONE_INSTANTIATE_KERNELS(DecodeKernels, decode_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
