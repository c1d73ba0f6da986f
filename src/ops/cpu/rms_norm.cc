// RMSNorm, forward and backward, one row at a time; compiled once per instruction set.
#include "ops/cpu/rms_norm.h"

#include "ops/cpu/math-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void norm_rows(const T* x, const T* residual, const T* weight, Wide<T> eps, std::int64_t rows, std::int64_t cols,
               T* sum, T* y, Wide<T>* inv_rms) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * cols;
    if (residual) {
      T* total = sum + r * cols;
      const T* other = residual + r * cols;
      for (std::int64_t i = 0; i < cols; ++i) store(total + i, load(in + i) + load(other + i));
      in = total;
    }
    const Wide<T> squares = sum_over<Wide<T>>(cols, [&](std::int64_t i) { return load(in + i) * load(in + i); });
    const Wide<T> scale = Wide<T>(1) / std::sqrt(squares / static_cast<Wide<T>>(cols) + eps);
    T* out = y + r * cols;
    for (std::int64_t i = 0; i < cols; ++i) store(out + i, rounded<T>(load(in + i) * scale) * load(weight + i));
    inv_rms[r] = scale;
  }
}

template <class T>
void norm_rows_backward(const T* dy, const T* extra, const T* x, const T* weight, const Wide<T>* inv_rms,
                        std::int64_t rows, std::int64_t cols, T* dx, Wide<T>* dweight) {
  using W = Wide<T>;
  for (std::int64_t r = 0; r < rows; ++r, dy += cols, x += cols, dx += cols) {
    const W scale = inv_rms[r];
    for (std::int64_t i = 0; i < cols; ++i) dweight[i] += load(dy + i) * rounded<T>(load(x + i) * scale);
    const W dot = sum_over<W>(cols, [&](std::int64_t i) { return load(dy + i) * load(weight + i) * load(x + i); });
    const W back = scale * scale * dot / static_cast<W>(cols);  // times scale x: the part along x
    if (extra) {
      for (std::int64_t i = 0; i < cols; ++i)
        store(dx + i, scale * (load(dy + i) * load(weight + i) - load(x + i) * back) + load(extra + i));
      extra += cols;
    } else {
      for (std::int64_t i = 0; i < cols; ++i)
        store(dx + i, scale * (load(dy + i) * load(weight + i) - load(x + i) * back));
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
