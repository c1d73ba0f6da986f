// Softmax cross-entropy of rows of logits, and its gradient in their place; compiled once per instruction set.
#include "ops/cpu/cross_entropy.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// weight * ((1 - s) (lse - x_label) + s (lse - mean x) + z lse^2); d/dx_i = weight * (p_i (1 + 2 z lse) - s / V - (1 -
// s) [i = label]).
template <class T>
Wide<T> run_row(T* x, std::int64_t label, Wide<T> weight, const CrossEntropyArgs<T>& a) {
  using W = Wide<T>;
  const std::int64_t vocab = a.vocab;
  const W most = max_over<W>(vocab, [&](std::int64_t i, auto part) { return load(x + i, part); });
  const W total = sum_over<W>(vocab, [&](std::int64_t i, auto part) { return exp_of(load(x + i, part) - most); });
  const W lse = most + std::log(total), at_label = load_one(x + label);
  W loss = (W(1) - a.smoothing) * (lse - at_label) + a.z_loss * lse * lse;
  if (a.smoothing != W(0)) {
    const W sum = sum_over<W>(vocab, [&](std::int64_t i, auto part) { return load(x + i, part); });
    loss += a.smoothing * (lse - sum / static_cast<W>(vocab));
  }
  if (a.gradient) {
    const W scale = weight * (W(1) + W(2) * a.z_loss * lse) / total,
            less = weight * a.smoothing / static_cast<W>(vocab);
    each_vector<W>(
        vocab, [&](std::int64_t i, auto part) { store(x + i, exp_of(load(x + i, part) - most) * scale - less, part); });
    const W label_p = exp_of(all(at_label - most))[0];
    store_one(x + label, label_p * scale - less - weight * (W(1) - a.smoothing));
  }
  return weight * loss;
}

template <class T>
void run_rows(const CrossEntropyArgs<T>& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) a.losses[r] = run_row(a.logits + r * a.vocab, a.labels[r], a.weight[r], a);
}

}  // namespace

template <class T>
CrossEntropyKernels<T> cross_entropy_kernels() {
  return {run_rows<T>};
}
HONE_INSTANTIATE_KERNELS(CrossEntropyKernels, cross_entropy_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
