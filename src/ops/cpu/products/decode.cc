// Attention of one new token for the query heads that share a key/value head; compiled once per instruction set.
#include "ops/cpu/products/decode.h"

#include <cmath>
#include <limits>

#include "ops/cpu/products/rows-inl.h"
#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// sink: one more score; -infinity: none.
template <class W>
void softmax_in_place(W* x, std::int64_t count, W sink) {
  const W most = std::max(max_over<W>(count, [&](std::int64_t i, auto part) { return load(x + i, part); }), sink);
  each_vector<W>(count, [&](std::int64_t i, auto part) { store(x + i, exp_of(load(x + i, part) - most), part); });
  const W sum = sum_over<W>(count, [&](std::int64_t i, auto part) { return load(x + i, part); });
  const W scale = W(1) / (sum + std::exp(sink - most));
  each_vector<W>(count, [&](std::int64_t i, auto part) { store(x + i, load(x + i, part) * scale, part); });
}

// Scores to shares.
template <class T>
void to_shares(const DecodeTask<T>& t) {
  const std::int64_t count = t.heads * t.length;
  if (t.soft_cap > 0)
    each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
      store(t.room + i, t.soft_cap * tanh_of(load(t.room + i, part) / t.soft_cap), part);
    });
  constexpr auto kNone = -std::numeric_limits<Wide<T>>::infinity();
  for (std::int64_t h = 0; h < t.heads; ++h)
    softmax_in_place(t.room + h * t.length, t.length, t.sinks ? t.sinks[h] : kNone);
}

// Shares [heads, length] in `room` times v [length, size]: the sums of kHeads heads over kVectors vectors of values
// from `begin` on stay in registers while v passes by once. Their order is that of v.
template <int kHeads, int kVectors, class T, class Kept>
void mix_vectors(const DecodeTask<T>& t, std::int64_t head, std::int64_t begin, Kept part) {
  using V = Vec<Wide<T>>;
  constexpr int kLane = kLanes<Wide<T>>;
  V sum[kHeads][kVectors];
  HONE_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    HONE_UNROLL
    for (int j = 0; j < kVectors; ++j) sum[h][j] = V{};
  }
  const T* v = t.v + begin;
  const Wide<T>* share = t.room + head * t.length;
  for (std::int64_t l = 0; l < t.length; ++l, v += t.size, ++share) {
    V value[kVectors];
    HONE_UNROLL
    for (int j = 0; j < kVectors; ++j) value[j] = load(v + j * kLane, part);
    HONE_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      HONE_UNROLL
      for (int j = 0; j < kVectors; ++j) sum[h][j] += share[h * t.length] * value[j];
    }
  }
  HONE_UNROLL
  for (int h = 0; h < kHeads; ++h) {
    HONE_UNROLL
    for (int j = 0; j < kVectors; ++j) store(t.y + (head + h) * t.size + begin + j * kLane, sum[h][j], part);
  }
}

template <int kVectors, class T, class Kept>
void mix_heads(const DecodeTask<T>& t, std::int64_t begin, Kept part) {
  std::int64_t head = 0;
  for (; head + 2 <= t.heads; head += 2) mix_vectors<2, kVectors>(t, head, begin, part);
  if (head < t.heads) mix_vectors<1, kVectors>(t, head, begin, part);
}

template <class T>
void mix(const DecodeTask<T>& t) {
  constexpr int kLane = kLanes<Wide<T>>;
  std::int64_t i = 0;
  for (; i + 4 * kLane <= t.size; i += 4 * kLane) mix_heads<4>(t, i, Whole{});
  for (; i + kLane <= t.size; i += kLane) mix_heads<1>(t, i, Whole{});
  if (i < t.size) mix_heads<1>(t, i, Part{t.size - i});
}

#if defined(HONE_DOTS)

template <class T>
void attend_tiles(const DecodeTask<T>& t) {
  each_sum<Dots<T>>(RowsByRows<T>{t.q, t.k, t.heads, t.size, t.length},
                    [&](std::int64_t head, std::int64_t at, const float* sums, std::int64_t count) {
                      float* scores = t.room + head * t.length + at;
                      for (std::int64_t i = 0; i < count; ++i) scores[i] = t.scale * sums[i];
                    });
  to_shares(t);
  mix(t);
}

#endif

template <class T>
void attend_plainly(const DecodeTask<T>& t) {
  using W = Wide<T>;
  for (std::int64_t l = 0; l < t.length; ++l)
    for (std::int64_t h = 0; h < t.heads; ++h) {
      const T *a = t.q + h * t.size, *b = t.k + l * t.size;
      const auto term = [&](std::int64_t i, auto part) { return load(a + i, part) * load(b + i, part); };
      t.room[h * t.length + l] = t.scale * sum_over<W>(t.size, term);
    }
  to_shares(t);
  mix(t);
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
