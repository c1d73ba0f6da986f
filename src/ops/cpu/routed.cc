// A router's scores, its products in fp32, and sums over experts; compiled once per instruction set.
#include "ops/cpu/routed.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void softmax(const T* logits, std::int64_t count, Wide<T>* to) {
  using W = Wide<T>;
  const W most = max_over<W>(count, [&](std::int64_t i, auto part) { return load(logits + i, part); });
  each_vector<W>(count, [&](std::int64_t i, auto part) { store(to + i, exp_of(load(logits + i, part) - most), part); });
  const W sum = sum_over<W>(count, [&](std::int64_t i, auto part) { return load(to + i, part); });
  each_vector<W>(count, [&](std::int64_t i, auto part) { store(to + i, load(to + i, part) / sum, part); });
}

template <class T>
void sigmoids(const T* logits, std::int64_t count, Wide<T>* to) {
  each_vector<Wide<T>>(count,
                       [&](std::int64_t i, auto part) { store(to + i, sigmoid(load(logits + i, part)), part); });
}

template <class T>
void add_up(const RoutedSum<T>& s) {
  using W = Wide<T>;
  each_vector<W>(s.columns, [&](std::int64_t i, auto part) {
    Vec<W> sum{};
    for (std::int64_t k = 0; k < s.count; ++k) {
      const RoutedPart<T>& p = s.parts[k];
      Vec<W> y = load(p.y + i, part);
      if (p.bias) y = rounded<T>(y + load(p.bias + i, part));
      sum += all(p.weight) * y;
    }
    if (s.shared) {
      Vec<W> shared = load(s.shared + i, part);
      if (s.is_gated) shared = rounded<T>(all(s.gate) * shared);
      sum = rounded<T>(sum) + shared;
    }
    store(s.to + i, sum, part);
  });
}

template <class T>
void multiply(const T* x, const T* weight, std::int64_t rows, std::int64_t in, std::int64_t outs, Wide<T>* y,
              std::int64_t stride) {
  for (std::int64_t o = 0; o < outs; ++o, weight += in)
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * in;
      const auto term = [&](std::int64_t i, auto part) { return load(row + i, part) * load(weight + i, part); };
      y[r * stride + o] = sum_over<Wide<T>>(in, term);
    }
}

}  // namespace

template <class T>
RoutedKernels<T> routed_kernels() {
  return {softmax<T>, sigmoids<T>, add_up<T>, multiply<T>};
}
HONE_INSTANTIATE_KERNELS(RoutedKernels, routed_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
