// Softmax cross-entropy of rows of logits, and its gradient in their place; compiled once per instruction set.
#include "ops/cpu/cross_entropy.h"

#include <cmath>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// Entropy of the softmax, mean of the logits, whether none is above the label's, and the log-normaliser.
template <class T>
void describe(const T* x, std::int64_t vocab, Wide<T> most, Wide<T> total, Wide<T> at_label, Wide<T>* to) {
  using W = Wide<T>;
  const W weighted = sum_over<W>(vocab, [&](std::int64_t i, auto part) {
    const auto above = load(x + i, part) - most;
    return exp_of(above) * above;
  });
  const W sum = sum_over<W>(vocab, [&](std::int64_t i, auto part) { return load(x + i, part); });
  to[0] = std::log(total) - weighted / total;
  to[1] = sum / static_cast<W>(vocab);
  to[2] = at_label == most ? W(1) : W(0);
  to[3] = most + std::log(total);
}

// weight * ((1 - s) (lse - x_label) + s (lse - mean x) + z lse^2); d/dx_i = weight * (p_i (1 + 2 z lse) - s / V - (1 -
// s) [i = label]). by_probability: the weight is the given one times p_label.
template <class T>
Wide<T> run_row(T* x, std::int64_t label, Wide<T> given, const CrossEntropyArgs<T>& a, Wide<T>* statistics) {
  using W = Wide<T>;
  const std::int64_t vocab = a.vocab;
  const W most = max_over<W>(vocab, [&](std::int64_t i, auto part) { return load(x + i, part); });
  const W total = sum_over<W>(vocab, [&](std::int64_t i, auto part) { return exp_of(load(x + i, part) - most); });
  const W lse = most + std::log(total), at_label = load_one(x + label);
  const W label_p = exp_of(all(at_label - most))[0], weight = a.by_probability ? given * label_p / total : given;
  W loss = (W(1) - a.smoothing) * (lse - at_label) + a.z_loss * lse * lse;
  if (a.smoothing != W(0)) {
    const W sum = sum_over<W>(vocab, [&](std::int64_t i, auto part) { return load(x + i, part); });
    loss += a.smoothing * (lse - sum / static_cast<W>(vocab));
  }
  if (statistics) describe(x, vocab, most, total, at_label, statistics);
  if (a.gradient) {
    const W scale = weight * (W(1) + W(2) * a.z_loss * lse) / total,
            less = weight * a.smoothing / static_cast<W>(vocab);
    each_vector<W>(
        vocab, [&](std::int64_t i, auto part) { store(x + i, exp_of(load(x + i, part) - most) * scale - less, part); });
    store_one(x + label, label_p * scale - less - weight * (W(1) - a.smoothing));
  }
  return weight * loss;
}

template <class T>
void run_rows(const CrossEntropyArgs<T>& a) {
  for (std::int64_t r = 0; r < a.rows; ++r)
    a.losses[r] =
        run_row(a.logits + r * a.vocab, a.labels[r], a.weight[r], a, a.statistics ? a.statistics + r * 4 : nullptr);
}

}  // namespace

template <class T>
CrossEntropyKernels<T> cross_entropy_kernels() {
  return {run_rows<T>};
}
HONE_INSTANTIATE_KERNELS(CrossEntropyKernels, cross_entropy_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
