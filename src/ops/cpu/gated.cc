// act(gate) * up, forward and backward in one pass each; compiled once per instruction set.
#include "ops/cpu/gated.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// Each activation gives its value and its derivative.
struct Silu {
  template <class V>
  static HONE_INLINE void both(V x, V& value, V& slope) {
    const V s = sigmoid(x);
    value = x * s;
    slope = s * (1 + x * (1 - s));
  }
};
struct Gelu {
  template <class V>
  static HONE_INLINE void both(V x, V& value, V& slope) {
    using W = std::remove_cvref_t<decltype(x[0])>;
    const V bell = exp_of(x * x * W(-0.5)), below = normal_cdf(x, bell);
    value = x * below;
    slope = below + x * bell * W(0.39894228040143267794);
  }
};
struct GeluTanh {
  template <class V>
  static HONE_INLINE void both(V x, V& value, V& slope) {
    using W = std::remove_cvref_t<decltype(x[0])>;
    constexpr W kBeta = W(0.79788456080286535588), kCube = W(0.044715);
    const V s = sigmoid(2 * kBeta * (x + kCube * x * x * x));  // (1 + tanh) / 2 of half of that
    value = x * s;
    slope = s + x * (s * (1 - s)) * (2 * kBeta * (1 + 3 * kCube * x * x));
  }
};
struct Relu {
  template <class V>
  static HONE_INLINE void both(V x, V& value, V& slope) {
    value = x < 0 ? V{} : x;
    slope = x <= 0 ? V{} : V{} + 1;
  }
};

template <class Act, class T>
void run_forward(const T* gate, const T* up, std::int64_t count, T* y) {
  each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
    Vec<Wide<T>> value, slope;
    Act::both(load(gate + i, part), value, slope);
    store(y + i, value * load(up + i, part), part);
  });
}

template <class Act, class T>
void run_backward(const T* dy, const T* gate, const T* up, std::int64_t count, T* dgate, T* dup, T* inner) {
  each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
    Vec<Wide<T>> value, slope;
    Act::both(load(gate + i, part), value, slope);
    const Vec<Wide<T>> g = load(dy + i, part), u = load(up + i, part);
    store(dgate + i, g * u * slope, part);
    store(dup + i, g * value, part);
    if (inner) store(inner + i, value * u, part);
  });
}

template <class Run>
auto with_activation(Activation activation, Run&& run) {
  switch (activation) {
    case Activation::silu:
      return run(Silu{});
    case Activation::gelu:
      return run(Gelu{});
    case Activation::gelu_tanh:
      return run(GeluTanh{});
    case Activation::relu:
      return run(Relu{});
  }
}

template <class T>
void gated_forward(Activation activation, const T* gate, const T* up, std::int64_t count, T* y) {
  with_activation(activation, [&]<class Act>(Act) { run_forward<Act>(gate, up, count, y); });
}

template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate, const T* up, std::int64_t count, T* dgate,
                    T* dup, T* inner) {
  with_activation(activation, [&]<class Act>(Act) { run_backward<Act>(dy, gate, up, count, dgate, dup, inner); });
}

}  // namespace

template <class T>
GatedKernels<T> gated_kernels() {
  return {gated_forward<T>, gated_backward<T>};
}
HONE_INSTANTIATE_KERNELS(GatedKernels, gated_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
