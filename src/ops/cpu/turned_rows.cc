// Products of few rows with weights by inputs; compiled once per instruction set.
#include "ops/cpu/turned_rows.h"

#include <algorithm>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kMostRows = 16, kOuts = 512;  // rows; outputs whose sums stay in the nearest cache

// sums[r] += x[r] . weight, of kInputs inputs from `k` on: with several at once the sums are read and written less.
template <int kInputs, class T>
HONE_INLINE void add_inputs(const SkinnyProduct<T>& p, const T* weight, std::int64_t k, std::int64_t outs,
                            Wide<T> (*sums)[kOuts]) {
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
      Vec<W> sum = load(sums[r] + o);
      HONE_UNROLL
      for (int i = 0; i < kInputs; ++i) sum += all(x[r][i]) * w[i];
      store(sums[r] + o, sum);
    }
  });
}

template <class T>
void multiply(const SkinnyProduct<T>& p) {
  using W = Wide<T>;
  alignas(64) W sums[kMostRows][kOuts];
  for (std::int64_t first = 0; first < p.outs; first += kOuts) {
    const std::int64_t outs = std::min(kOuts, p.outs - first);
    for (std::int64_t r = 0; r < p.rows; ++r) std::fill_n(sums[r], kOuts, W{0});
    std::int64_t k = 0;
    for (; k + 4 <= p.in; k += 4) add_inputs<4>(p, p.weight + first, k, outs, sums);
    for (; k < p.in; ++k) add_inputs<1>(p, p.weight + first, k, outs, sums);
    for (std::int64_t r = 0; r < p.rows; ++r)
      each_vector<W>(outs, [&](std::int64_t o, auto part) {
        const Vec<W> sum = load(sums[r] + o);
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
