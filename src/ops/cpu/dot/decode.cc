// Attention of one new token for the query heads that share a key/value head; compiled once per instruction set.
#include "ops/cpu/dot/decode.h"

#include "ops/cpu/dot/rows-inl.h"
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

// Values [begin, end) of each head: shares [heads, length] times v [length, size]; the order of the sum is that of v.
template <class T>
void mix_plainly(const Wide<T>* shares, const DecodeTask<T>& t, std::int64_t begin, std::int64_t end) {
  for (std::int64_t h = 0; h < t.heads; ++h)
    for (std::int64_t i = begin; i < end; ++i) {
      Wide<T> sum = 0;
      for (std::int64_t l = 0; l < t.length; ++l) sum += shares[h * t.length + l] * load(t.v + l * t.size + i);
      store(t.y + h * t.size + i, sum);
    }
}

#if defined(HONE_DOTS)

// kHeads heads' sums over kVectors vectors of values stay in registers while v passes by once.
template <int kHeads, int kVectors, class T>
void mix_vectors(const float* shares, const DecodeTask<T>& t, std::int64_t head, std::int64_t begin) {
  using L = Dots<T>;
  typename L::Sum sum[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h)
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[h][j] = L::zero();
  const T* v = t.v + begin;
  const float* share = shares + head * t.length;
  for (std::int64_t l = 0; l < t.length; ++l, v += t.size, ++share) {
    typename L::Sum value[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) value[j] = L::load_wide(v + j * L::kWidth);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const typename L::Sum factor = L::all(share[h * t.length]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[h][j] = L::add_wide(sum[h][j], factor, value[j]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    float wide[kVectors * L::kWidth];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) L::store_wide(wide + j * L::kWidth, sum[h][j]);
    T* y = t.y + (head + h) * t.size + begin;
    for (int i = 0; i < kVectors * L::kWidth; ++i) store(y + i, wide[i]);
  }
}

template <int kVectors, class T>
void mix_heads(const float* shares, const DecodeTask<T>& t, std::int64_t begin) {
  std::int64_t head = 0;
  for (; head + 2 <= t.heads; head += 2) mix_vectors<2, kVectors>(shares, t, head, begin);
  if (head < t.heads) mix_vectors<1, kVectors>(shares, t, head, begin);
}

template <class T>
void attend_tiles(const DecodeTask<T>& t) {
  using L = Dots<T>;
  each_sum<L>(RowsByRows<T>{t.q, t.k, t.heads, t.size, t.length},
              [&](std::int64_t head, std::int64_t at, const float* sums, std::int64_t count) {
                float* scores = t.room + head * t.length + at;
                for (std::int64_t i = 0; i < count; ++i) scores[i] = t.scale * sums[i];
              });
  for (std::int64_t h = 0; h < t.heads; ++h) softmax_in_place(t.room + h * t.length, t.length);
  std::int64_t i = 0;
  for (; i + 4 * L::kWidth <= t.size; i += 4 * L::kWidth) mix_heads<4>(t.room, t, i);
  for (; i + L::kWidth <= t.size; i += L::kWidth) mix_heads<1>(t.room, t, i);
  mix_plainly(t.room, t, i, t.size);
}

#endif

template <class T>
void attend_plainly(const DecodeTask<T>& t) {
  using W = Wide<T>;
  for (std::int64_t l = 0; l < t.length; ++l)
    for (std::int64_t h = 0; h < t.heads; ++h) {
      const T *a = t.q + h * t.size, *b = t.k + l * t.size;
      const W sum = sum_over<W>(t.size, [&](std::int64_t i) { return load(a + i) * load(b + i); });
      t.room[h * t.length + l] = t.scale * sum;
    }
  for (std::int64_t h = 0; h < t.heads; ++h) softmax_in_place(t.room + h * t.length, t.length);
  mix_plainly(t.room, t, 0, t.size);
}

}  // namespace

template <class T>
DecodeKernels<T> decode_kernels() {
#if defined(HONE_DOTS)
  if constexpr (!std::is_same_v<T, double>) return {attend_tiles<T>};
#endif
  return {attend_plainly<T>};
}
HONE_INSTANTIATE_KERNELS(DecodeKernels, decode_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
