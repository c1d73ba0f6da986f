// A short causal convolution, forward and backward, token by token; compiled once per instruction set.
#include "ops/cpu/short_conv.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
HONE_INLINE std::int64_t stride_of(const ShortConvArgs<T>& a) {
  return a.stride > 0 ? a.stride : a.channels;
}
template <class T>
HONE_INLINE std::int64_t stride_of(const ShortConvGradientArgs<T>& a) {
  return a.channels;
}

// The sum for channels from i on of the token at `x`, of whose document so many tokens come before it.
template <class T>
HONE_INLINE Vec<Wide<T>> sum_at(const auto& a, const T* x, std::int64_t before, std::int64_t i, auto part) {
  Vec<Wide<T>> sum{};
  const std::int64_t stride = stride_of(a);
  if (a.bias) sum = load(a.bias + i, part);
  for (std::int64_t back = before < a.taps - 1 ? before : a.taps - 1; back >= 0; --back)
    sum += load(x + i - back * stride, part) * load(a.weight + (a.taps - 1 - back) * stride + i, part);
  return sum;
}

template <bool silu, class T>
void convolve(const ShortConvArgs<T>& a) {
  using W = Wide<T>;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const T* x = a.x + t * stride_of(a);
    T* y = a.y + t * a.channels;
    each_vector<W>(a.channels, [&](std::int64_t i, auto part) {
      const Vec<W> sum = sum_at<T>(a, x, a.before + t, i, part);
      if constexpr (silu)
        store(y + i, sum * sigmoid(sum), part);
      else
        store(y + i, sum, part);
    });
  }
}

// The gradients of the last `taps` tokens' sums lie in the room; a token has its own when that of the last token that
// reads it is there.
template <bool silu, class T>
void convolve_backward(const ShortConvGradientArgs<T>& a) {
  using W = Wide<T>;
  const std::int64_t channels = a.channels, taps = a.taps;
  const auto of = [&](std::int64_t t) { return a.room + t % taps * channels; };
  for (std::int64_t t = 0; t < a.tokens + taps - 1; ++t) {
    W* made = of(t);
    if (t < a.tokens + a.after) {
      const T *x = a.x + t * channels, *dy = a.dy + t * channels;
      const std::int64_t before = a.before + t, most_back = before < taps - 1 ? before : taps - 1;
      each_vector<W>(channels, [&](std::int64_t i, auto part) {
        Vec<W> d = load(dy + i, part);
        if constexpr (silu) {
          const Vec<W> sum = sum_at<T>(a, x, before, i, part), open = sigmoid(sum);
          d = d * open * (1 + sum * (1 - open));
        }
        store(made + i, d, part);
        if (t >= a.tokens) return;
        if (a.dbias) store(a.dbias + i, load(a.dbias + i, part) + d, part);
        for (std::int64_t back = 0; back <= most_back; ++back) {
          W* to = a.dweight + (taps - 1 - back) * channels + i;
          store(to, load(to, part) + d * load(x + i - back * channels, part), part);
        }
      });
    } else {
      for (std::int64_t i = 0; i < channels; ++i) made[i] = 0;
    }
    const std::int64_t ready = t - (taps - 1);
    if (ready < 0) continue;
    T* dx = a.dx + ready * channels;
    each_vector<W>(channels, [&](std::int64_t i, auto part) {
      Vec<W> sum{};
      for (std::int64_t later = 0; later < taps; ++later)
        sum += load(of(ready + later) + i, part) * load(a.weight + (taps - 1 - later) * channels + i, part);
      store(dx + i, sum, part);
    });
  }
}

}  // namespace

template <class T>
ShortConvKernels<T> short_conv_kernels() {
  return {[](const ShortConvArgs<T>& a) { a.silu ? convolve<true>(a) : convolve<false>(a); },
          [](const ShortConvGradientArgs<T>& a) { a.silu ? convolve_backward<true>(a) : convolve_backward<false>(a); }};
}
HONE_INSTANTIATE_KERNELS(ShortConvKernels, short_conv_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
