// sigmoid(gate) times a norm by heads, forward and backward, one head of one token at a time; compiled once per
// instruction set.
#include "ops/cpu/head_norm.h"

#include <cmath>

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void norm_head(const HeadNormArgs<T>& a, std::int64_t token, std::int64_t head) {
  using W = Wide<T>;
  const std::int64_t at = (token * a.heads + head) * a.size;
  const T *in = a.x + at, *gate = a.gate + at, *weight = a.weight + head * a.size;
  const auto size = static_cast<W>(a.size);
  const W mean = sum_over<W>(a.size, [&](std::int64_t i, auto part) { return load(in + i, part); }) / size;
  const W squares = sum_over<W>(a.size, [&](std::int64_t i, auto part) {
    const Vec<W> away = load(in + i, part) - mean;
    return away * away;
  });
  const W scale = W(1) / std::sqrt(squares / size + a.eps);
  each_vector<W>(a.size, [&](std::int64_t i, auto part) {
    const Vec<W> normed = (load(in + i, part) - mean) * scale;
    store(a.y + at + i, normed * load(weight + i, part) * sigmoid(load(gate + i, part)), part);
  });
  a.mean[token * a.heads + head] = mean;
  a.inv_std[token * a.heads + head] = scale;
}

template <class T>
void norm_head_backward(const HeadNormGradientArgs<T>& a, std::int64_t token, std::int64_t head) {
  using W = Wide<T>;
  const std::int64_t at = (token * a.heads + head) * a.size, own = head * a.size;
  const T *x = a.x + at, *dy = a.dy + at, *gate = a.gate + at, *weight = a.weight + own;
  const W mean = a.mean[token * a.heads + head], scale = a.inv_std[token * a.heads + head];
  const auto size = static_cast<W>(a.size);
  Vec<W> sums{}, dots{};
  each_vector<W>(a.size, [&](std::int64_t i, auto part) {
    const Vec<W> open = sigmoid(load(gate + i, part)), normed = (load(x + i, part) - mean) * scale;
    const Vec<W> d = load(dy + i, part), opened = d * open, g = opened * load(weight + i, part);
    store(a.dgate + at + i, g * normed * (1 - open), part);
    store(a.dweight + own + i, load(a.dweight + own + i, part) + opened * normed, part);
    sums += g;  // lanes that are not there have g = 0
    dots += g * normed;
  });
  const W level = sum_of<W>(sums) / size, slope = sum_of<W>(dots) / size;
  each_vector<W>(a.size, [&](std::int64_t i, auto part) {
    const Vec<W> open = sigmoid(load(gate + i, part)), normed = (load(x + i, part) - mean) * scale;
    const Vec<W> g = load(dy + i, part) * open * load(weight + i, part);
    store(a.dx + at + i, scale * (g - level - normed * slope), part);
  });
}

template <class T>
void norm_heads(const HeadNormArgs<T>& a) {
  for (std::int64_t token = 0; token < a.tokens; ++token)
    for (std::int64_t head = 0; head < a.heads; ++head) norm_head(a, token, head);
}
template <class T>
void norm_heads_backward(const HeadNormGradientArgs<T>& a) {
  for (std::int64_t i = 0; i < a.heads * a.size; ++i) a.dweight[i] = 0;
  for (std::int64_t token = 0; token < a.tokens; ++token)
    for (std::int64_t head = 0; head < a.heads; ++head) norm_head_backward(a, token, head);
}

}  // namespace

template <class T>
HeadNormKernels<T> head_norm_kernels() {
  return {norm_heads<T>, norm_heads_backward<T>};
}
HONE_INSTANTIATE_KERNELS(HeadNormKernels, head_norm_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
