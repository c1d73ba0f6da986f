// Products of few rows with weights by inputs; compiled once per instruction set.
#include "ops/cpu/turned_rows.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kMostRows = 16;
template <class W>
constexpr std::int64_t kSums = 32768 / sizeof(W);  // that stay in the nearest cache

// sums[r] += x[r] . weight, of kInputs inputs from `k` on: with several at once the sums are read and written less.
// Rows of sums lie `room` apart.
template <int kInputs, class T>
HONE_INLINE void add_inputs(const SkinnyProduct<T>& p, const T* weight, std::int64_t k, std::int64_t outs,
                            Wide<T>* sums, std::int64_t room) {
  using W = Wide<T>;
  W x[kMostRows][kInputs];
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (int i = 0; i < kInputs; ++i) x[r][i] = load_one(p.x + r * p.in + k + i);
  const T* from = weight + k * p.turned;
  each_vector<W>(outs, [&](std::int64_t o, auto part) HONE_LAMBDA {
    Vec<W> w[kInputs];
    HONE_UNROLL
    for (int i = 0; i < kInputs; ++i) w[i] = load(from + i * p.turned + o, part);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      Vec<W> sum = load(sums + r * room + o);
      HONE_UNROLL
      for (int i = 0; i < kInputs; ++i) sum += all(x[r][i]) * w[i];
      store(sums + r * room + o, sum);
    }
  });
}

// As many outputs at a time as there is room for: of few rows the weight is read in long stretches.
template <class T>
void multiply(const SkinnyProduct<T>& p) {
  using W = Wide<T>;
  alignas(64) W sums[kSums<W>];
  const std::int64_t room = kSums<W> / std::bit_ceil(static_cast<std::uint64_t>(p.rows));
  for (std::int64_t first = 0; first < p.outs; first += room) {
    const std::int64_t outs = std::min(room, p.outs - first);
    for (std::int64_t r = 0; r < p.rows; ++r) std::fill_n(sums + r * room, std::min(room, outs + kLanes<W>), W{0});
    std::int64_t k = 0;
    for (; k + 4 <= p.in; k += 4) add_inputs<4>(p, p.weight + first, k, outs, sums, room);
    for (; k < p.in; ++k) add_inputs<1>(p, p.weight + first, k, outs, sums, room);
    for (std::int64_t r = 0; r < p.rows; ++r)
      each_vector<W>(outs, [&](std::int64_t o, auto part) {
        const Vec<W> sum = load(sums + r * room + o);
        store(p.y + r * p.stride + first + o, p.bias ? sum + load(p.bias + first + o, part) : sum, part);
      });
  }
}

}  // namespace

template <class T>
TurnedRowKernels<T> turned_row_kernels() {
  return {multiply<T>};
}
HONE_INSTANTIATE_KERNELS(TurnedRowKernels, turned_row_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
