// RMSNorm, forward and backward, one row at a time; compiled once per instruction set.
#include "ops/cpu/rms_norm.h"

#include <cmath>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void norm_rows(const T* x, const T* residual, const T* weight, Wide<T> eps, std::int64_t rows, std::int64_t cols,
               T* sum, T* y, Wide<T>* inv_rms) {
  using W = Wide<T>;
  for (std::int64_t r = 0; r < rows; ++r, x += cols, y += cols) {
    W squares;
    if (residual) {
      squares = sum_over<W>(cols, [&](std::int64_t i, auto part) {
        const Vec<W> total = rounded<T>(load(x + i, part) + load(residual + i, part));
        store(sum + i, total, part);
        return total * total;
      });
    } else {
      squares = sum_over<W>(cols, [&](std::int64_t i, auto part) {
        const Vec<W> in = load(x + i, part);
        return in * in;
      });
    }
    const W scale = W(1) / std::sqrt(squares / static_cast<W>(cols) + eps);
    const T* in = residual ? sum : x;
    each_vector<W>(cols, [&](std::int64_t i, auto part) {
      store(y + i, rounded<T>(load(in + i, part) * scale) * load(weight + i, part), part);
    });
    inv_rms[r] = scale;
    if (residual) residual += cols, sum += cols;
  }
}

template <class T>
void norm_rows_backward(const T* dy, const T* extra, const T* x, const T* weight, const Wide<T>* inv_rms,
                        std::int64_t rows, std::int64_t cols, T* dx, Wide<T>* dweight) {
  using W = Wide<T>;
  for (std::int64_t i = 0; i < cols; ++i) dweight[i] = 0;
  for (std::int64_t r = 0; r < rows; ++r, dy += cols, x += cols, dx += cols) {
    const W scale = inv_rms[r];
    const W dot = sum_over<W>(cols, [&](std::int64_t i, auto part) {
      const Vec<W> g = load(dy + i, part), in = load(x + i, part);
      store(dweight + i, load(dweight + i, part) + g * rounded<T>(in * scale), part);
      return g * load(weight + i, part) * in;
    });
    const W back = scale * scale * dot / static_cast<W>(cols);  // times scale x: the part along x
    const auto gradient = [&](std::int64_t i, auto part) HONE_LAMBDA {
      return scale * (load(dy + i, part) * load(weight + i, part) - load(x + i, part) * back);
    };
    if (extra) {
      each_vector<W>(
          cols, [&](std::int64_t i, auto part) { store(dx + i, gradient(i, part) + load(extra + i, part), part); });
      extra += cols;
    } else {
      each_vector<W>(cols, [&](std::int64_t i, auto part) { store(dx + i, gradient(i, part), part); });
    }
  }
}

}  // namespace

template <class T>
RmsNormKernels<T> rms_norm_kernels() {
  return {norm_rows<T>, norm_rows_backward<T>};
}
HONE_INSTANTIATE_KERNELS(RmsNormKernels, rms_norm_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
