// RMSNorm, forward and backward, one row at a time; compiled once per instruction set.
#include "ops/cpu/rms_norm.h"

#include <cmath>
#include <type_traits>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class F>
void with_factor(RmsFactor factor, const F& f) {
  switch (factor) {
    case RmsFactor::weight:
      return f(std::integral_constant<RmsFactor, RmsFactor::weight>());
    case RmsFactor::wide_weight:
      return f(std::integral_constant<RmsFactor, RmsFactor::wide_weight>());
    case RmsFactor::one_plus_weight:
      return f(std::integral_constant<RmsFactor, RmsFactor::one_plus_weight>());
  }
}

// How a normalised value counts.
template <class T, RmsFactor kFactor>
struct Weighed {
  using W = Wide<T>;
  static HONE_INLINE Vec<W> factor(Vec<W> weight) {
    return kFactor == RmsFactor::one_plus_weight ? weight + W(1) : weight;
  }
  static HONE_INLINE Vec<W> multiplied(Vec<W> normed) {
    return kFactor == RmsFactor::weight ? rounded<T>(normed) : normed;
  }
};

template <class T, RmsFactor kFactor>
void norm_rows_by(const T* x, const T* residual, const T* weight, Wide<T> eps, std::int64_t rows, std::int64_t cols,
                  T* sum, T* y, Wide<T>* inv_rms) {
  using W = Wide<T>;
  using Form = Weighed<T, kFactor>;
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
      store(y + i, Form::multiplied(load(in + i, part) * scale) * Form::factor(load(weight + i, part)), part);
    });
    inv_rms[r] = scale;
    if (residual) residual += cols, sum += cols;
  }
}

template <class T>
void norm_rows(const T* x, const T* residual, RmsWeight<T> weight, Wide<T> eps, std::int64_t rows, std::int64_t cols,
               T* sum, T* y, Wide<T>* inv_rms) {
  with_factor(weight.factor, [&](auto factor) {
    norm_rows_by<T, factor>(x, residual, weight.weight, eps, rows, cols, sum, y, inv_rms);
  });
}

template <class T, RmsFactor kFactor>
void norm_rows_backward_by(const T* dy, const T* extra, const T* x, const T* weight, const Wide<T>* inv_rms,
                           std::int64_t rows, std::int64_t cols, T* dx, Wide<T>* dweight) {
  using W = Wide<T>;
  using Form = Weighed<T, kFactor>;
  for (std::int64_t i = 0; i < cols; ++i) dweight[i] = 0;
  for (std::int64_t r = 0; r < rows; ++r, dy += cols, x += cols, dx += cols) {
    const W scale = inv_rms[r];
    const W dot = sum_over<W>(cols, [&](std::int64_t i, auto part) {
      const Vec<W> g = load(dy + i, part), in = load(x + i, part);
      store(dweight + i, load(dweight + i, part) + g * Form::multiplied(in * scale), part);
      return g * Form::factor(load(weight + i, part)) * in;
    });
    const W back = scale * scale * dot / static_cast<W>(cols);  // times scale x: the part along x
    const auto gradient = [&](std::int64_t i, auto part) HONE_LAMBDA {
      return scale * (load(dy + i, part) * Form::factor(load(weight + i, part)) - load(x + i, part) * back);
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

template <class T>
void norm_rows_backward(const T* dy, const T* extra, const T* x, RmsWeight<T> weight, const Wide<T>* inv_rms,
                        std::int64_t rows, std::int64_t cols, T* dx, Wide<T>* dweight) {
  with_factor(weight.factor, [&](auto factor) {
    norm_rows_backward_by<T, factor>(dy, extra, x, weight.weight, inv_rms, rows, cols, dx, dweight);
  });
}

}  // namespace

template <class T>
RmsNormKernels<T> rms_norm_kernels() {
  return {norm_rows<T>, norm_rows_backward<T>};
}
HONE_INSTANTIATE_KERNELS(RmsNormKernels, rms_norm_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
