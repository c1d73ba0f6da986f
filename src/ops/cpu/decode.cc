// Attention of one new token for the query heads that share a key/value head; compiled once per instruction set.
#include "ops/cpu/decode.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class W>
void softmax_in_place(W* x, std::int64_t count) {
  const W most = max_over<W>(count, [&](std::int64_t i, auto part) { return load(x + i, part); });
  each_vector<W>(count, [&](std::int64_t i, auto part) { store(x + i, exp_of(load(x + i, part) - most), part); });
  const W scale = W(1) / sum_over<W>(count, [&](std::int64_t i, auto part) { return load(x + i, part); });
  each_vector<W>(count, [&](std::int64_t i, auto part) { store(x + i, load(x + i, part) * scale, part); });
}

template <class T>
void attend_one(const T* q, const T* k, const T* v, std::int64_t heads, std::int64_t length, std::int64_t size,
                Wide<T> scale, Wide<T>* room, T* y) {
  using W = Wide<T>;
  W *scores = room, *sums = room + heads * length;
  for (std::int64_t l = 0; l < length; ++l)
    for (std::int64_t h = 0; h < heads; ++h) {
      const T *a = q + h * size, *b = k + l * size;
      const auto term = [&](std::int64_t i, auto part) { return load(a + i, part) * load(b + i, part); };
      scores[h * length + l] = scale * sum_over<W>(size, term);
    }
  for (std::int64_t h = 0; h < heads; ++h) softmax_in_place(scores + h * length, length);
  for (std::int64_t i = 0; i < heads * size; ++i) sums[i] = 0;
  for (std::int64_t l = 0; l < length; ++l)
    for (std::int64_t h = 0; h < heads; ++h) {
      const W share = scores[h * length + l];
      W* sum = sums + h * size;
      each_vector<W>(size, [&](std::int64_t i, auto part) {
        store(sum + i, load(sum + i, part) + share * load(v + l * size + i, part), part);
      });
    }
  each_vector<W>(heads * size, [&](std::int64_t i, auto part) { store(y + i, load(sums + i, part), part); });
}

}  // namespace

template <class T>
DecodeKernels<T> decode_kernels() {
  return {attend_one<T>};
}
HONE_INSTANTIATE_KERNELS(DecodeKernels, decode_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
