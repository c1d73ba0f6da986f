// gpt-oss's gate, forward and backward in one pass each; compiled once per instruction set.
#include "ops/cpu/clamped_gate.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class W>
struct Pairs {
  Vec<W> gate, up;
};

// Values 0, 2, 4 ... of two vectors side by side, or 1, 3, 5 ...
template <int kFirst, class V, std::size_t... I>
HONE_INLINE V every_second(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (2 * static_cast<int>(I) + kFirst)...);
}
// Those of two vectors by turns, from the half's beginning on.
template <int kHalf, class V, std::size_t... I>
HONE_INLINE V by_turns(V a, V b, std::index_sequence<I...>) {
  constexpr int n = sizeof...(I);
  return __builtin_shufflevector(a, b, (static_cast<int>(I) / 2 + kHalf * n / 2 + static_cast<int>(I) % 2 * n)...);
}

template <class T>
HONE_INLINE Pairs<Wide<T>> load_pairs(const T* both, Whole) {
  constexpr auto lanes = std::make_index_sequence<kLanes<Wide<T>>>();
  const Vec<Wide<T>> a = load(both), b = load(both + kLanes<Wide<T>>);
  return {every_second<0>(a, b, lanes), every_second<1>(a, b, lanes)};
}
template <class T>
HONE_INLINE Pairs<Wide<T>> load_pairs(const T* both, Part part) {
  T room[2 * kLanes<Wide<T>>] = {};
  std::memcpy(static_cast<void*>(room), both, 2 * static_cast<std::size_t>(part.count) * sizeof(T));
  return load_pairs(room, Whole{});
}

template <class T>
HONE_INLINE void store_pairs(T* to, const Pairs<Wide<T>>& pairs, Whole) {
  constexpr auto lanes = std::make_index_sequence<kLanes<Wide<T>>>();
  store(to, by_turns<0>(pairs.gate, pairs.up, lanes));
  store(to + kLanes<Wide<T>>, by_turns<1>(pairs.gate, pairs.up, lanes));
}
template <class T>
HONE_INLINE void store_pairs(T* to, const Pairs<Wide<T>>& pairs, Part part) {
  T room[2 * kLanes<Wide<T>>];
  store_pairs(room, pairs, Whole{});
  std::memcpy(static_cast<void*>(to), room, 2 * static_cast<std::size_t>(part.count) * sizeof(T));
}

// What is not a number stays so.
template <class W>
HONE_INLINE Pairs<W> cut(const Pairs<W>& given, W limit) {
  const Vec<W> most = all(limit);
  return {smaller(most, given.gate), larger(-most, smaller(most, given.up))};
}

template <class T>
void gate_forward(const T* both, std::int64_t count, Wide<T> alpha, Wide<T> limit, T* y) {
  each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
    const auto [g, u] = cut(load_pairs(both + 2 * i, part), limit);
    store(y + i, g * sigmoid(g * alpha) * (u + 1), part);
  });
}

template <class T>
void gate_backward(const T* d, const T* both, std::int64_t count, Wide<T> alpha, Wide<T> limit, T* dboth) {
  using V = Vec<Wide<T>>;
  each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
    const Pairs<Wide<T>> given = load_pairs(both + 2 * i, part), x = cut(given, limit);
    const V share = sigmoid(x.gate * alpha), dy = load(d + i, part);
    const V slope = share * (1 + alpha * x.gate * (1 - share));
    const Pairs<Wide<T>> made{x.gate == given.gate ? dy * (x.up + 1) * slope : V{},
                              x.up == given.up ? dy * x.gate * share : V{}};
    store_pairs(dboth + 2 * i, made, part);
  });
}

}  // namespace

template <class T>
ClampedGateKernels<T> clamped_gate_kernels() {
  return {gate_forward<T>, gate_backward<T>};
}
HONE_INSTANTIATE_KERNELS(ClampedGateKernels, clamped_gate_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
