// A short causal convolution with silu behind it, forward and backward, token by token; compiled once per instruction
// set.
#include "ops/cpu/short_conv.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// The sum for the token at `x`, of whose document so many tokens come before it.
template <class T>
HONE_INLINE Vec<Wide<T>> sum_at(const T* x, const Wide<T>* weight, std::int64_t before, std::int64_t taps,
                                std::int64_t channels, auto part) {
  Vec<Wide<T>> sum{};
  for (std::int64_t back = before < taps - 1 ? before : taps - 1; back >= 0; --back)
    sum += load(x - back * channels, part) * load(weight + (taps - 1 - back) * channels, part);
  return sum;
}

template <class T>
void convolve(const ShortConvArgs<T>& a) {
  using W = Wide<T>;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const T* x = a.x + t * a.channels;
    T* y = a.y + t * a.channels;
    each_vector<W>(a.channels, [&](std::int64_t i, auto part) {
      const Vec<W> sum = sum_at<T>(x + i, a.weight + i, a.before + t, a.taps, a.channels, part);
      store(y + i, sum * sigmoid(sum), part);
    });
  }
}

// The gradients of the last `taps` tokens' sums lie in the room; a token has its own when that of the last token that
// reads it is there.
template <class T>
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
        const Vec<W> sum = sum_at<T>(x + i, a.weight + i, before, taps, channels, part), open = sigmoid(sum);
        const Vec<W> d = load(dy + i, part) * open * (1 + sum * (1 - open));
        store(made + i, d, part);
        if (t >= a.tokens) return;
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
  return {convolve<T>, convolve_backward<T>};
}
HONE_INSTANTIATE_KERNELS(ShortConvKernels, short_conv_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
