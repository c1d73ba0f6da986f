// Layer normalisation, forward and backward, one row at a time; compiled once per instruction set.
#include "ops/cpu/layer_norm.h"

#include <cmath>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void norm_rows(const LayerNormArgs<T>& a) {
  using W = Wide<T>;
  const auto size = static_cast<W>(a.cols);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* in = a.x + r * a.cols;
    if (a.residual) {
      const T* other = a.residual + r * a.cols;
      T* sum = a.sum + r * a.cols;
      each_vector<W>(
          a.cols, [&](std::int64_t i, auto part) { store(sum + i, load(in + i, part) + load(other + i, part), part); });
      in = sum;
    }
    const W mean = sum_over<W>(a.cols, [&](std::int64_t i, auto part) { return load(in + i, part); }) / size;
    const W squares = sum_over<W>(a.cols, [&](std::int64_t i, auto part) {
      const Vec<W> away = load(in + i, part) - mean;
      return away * away;
    });
    const W scale = W(1) / std::sqrt(squares / size + a.eps);
    T* y = a.y + r * a.cols;
    each_vector<W>(a.cols, [&](std::int64_t i, auto part) {
      Vec<W> out = (load(in + i, part) - mean) * scale * load(a.weight + i, part);
      if (a.bias) out += load(a.bias + i, part);
      store(y + i, out, part);
    });
    a.mean[r] = mean;
    a.inv_std[r] = scale;
  }
}

template <class T>
void norm_row_backward(const LayerNormGradientArgs<T>& a, std::int64_t r) {
  using W = Wide<T>;
  const T *dy = a.dy + r * a.cols, *x = a.x + r * a.cols, *extra = a.extra ? a.extra + r * a.cols : nullptr;
  T* dx = a.dx + r * a.cols;
  const W mean = a.mean[r], scale = a.inv_std[r], size = static_cast<W>(a.cols);
  Vec<W> sums{}, dots{};
  each_vector<W>(a.cols, [&](std::int64_t i, auto part) {
    const Vec<W> d = load(dy + i, part), normed = (load(x + i, part) - mean) * scale, g = d * load(a.weight + i, part);
    store(a.dweight + i, load(a.dweight + i, part) + d * normed, part);
    store(a.dbias + i, load(a.dbias + i, part) + d, part);
    sums += g;  // lanes that are not there have g = 0
    dots += g * normed;
  });
  const W level = sum_of<W>(sums) / size, slope = sum_of<W>(dots) / size;
  each_vector<W>(a.cols, [&](std::int64_t i, auto part) {
    const Vec<W> normed = (load(x + i, part) - mean) * scale;
    Vec<W> out = scale * (load(dy + i, part) * load(a.weight + i, part) - level - normed * slope);
    if (extra) out += load(extra + i, part);
    store(dx + i, out, part);
  });
}

template <class T>
void norm_rows_backward(const LayerNormGradientArgs<T>& a) {
  for (std::int64_t i = 0; i < a.cols; ++i) a.dweight[i] = a.dbias[i] = 0;
  for (std::int64_t r = 0; r < a.rows; ++r) norm_row_backward(a, r);
}

}  // namespace

template <class T>
LayerNormKernels<T> layer_norm_kernels() {
  return {norm_rows<T>, norm_rows_backward<T>};
}
HONE_INSTANTIATE_KERNELS(LayerNormKernels, layer_norm_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
