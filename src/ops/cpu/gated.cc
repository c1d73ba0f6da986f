// act(gate) * up, forward and backward in one pass each; compiled once per instruction set.
#include "ops/cpu/gated.h"

#include "ops/cpu/math-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

// Each activation gives its value and its derivative.
struct Silu {
  template <class W>
  static void both(W x, W& value, W& slope) {
    const W s = sigmoid(x);
    value = x * s;
    slope = s * (W(1) + x * (W(1) - s));
  }
};
struct Gelu {
  template <class W>
  static void both(W x, W& value, W& slope) {
    const W below = W(0.5) * (W(1) + std::erf(x * W(0.70710678118654752440)));
    value = x * below;
    slope = below + x * std::exp(W(-0.5) * x * x) * W(0.39894228040143267794);
  }
};
struct GeluTanh {
  template <class W>
  static void both(W x, W& value, W& slope) {
    constexpr W kBeta = W(0.79788456080286535588), kCube = W(0.044715);
    const W inner = kBeta * (x + kCube * x * x * x);
    const W t = W(2) * sigmoid(W(2) * inner) - W(1);  // tanh(inner)
    value = W(0.5) * x * (W(1) + t);
    slope = W(0.5) * (W(1) + t) + W(0.5) * x * (W(1) - t * t) * kBeta * (W(1) + W(3) * kCube * x * x);
  }
};
struct Relu {
  template <class W>
  static void both(W x, W& value, W& slope) {
    value = x > W(0) ? x : W(0);
    slope = x > W(0) ? W(1) : W(0);
  }
};

template <class Act, class T>
void run_forward(const T* gate, const T* up, std::int64_t count, T* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    Wide<T> value, slope;
    Act::both(load(gate + i), value, slope);
    store(y + i, value * load(up + i));
  }
}

template <class Act, class T>
void run_backward(const T* dy, const T* gate, const T* up, std::int64_t count, T* dgate, T* dup) {
  for (std::int64_t i = 0; i < count; ++i) {
    Wide<T> value, slope;
    Act::both(load(gate + i), value, slope);
    const Wide<T> g = load(dy + i), u = load(up + i);
    store(dgate + i, g * u * slope);
    store(dup + i, g * value);
  }
}

template <class T>
void gated_forward(Activation activation, const T* gate, const T* up, std::int64_t count, T* y) {
  switch (activation) {
    case Activation::silu:
      return run_forward<Silu>(gate, up, count, y);
    case Activation::gelu:
      return run_forward<Gelu>(gate, up, count, y);
    case Activation::gelu_tanh:
      return run_forward<GeluTanh>(gate, up, count, y);
    case Activation::relu:
      return run_forward<Relu>(gate, up, count, y);
  }
}

template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate, const T* up, std::int64_t count, T* dgate,
                    T* dup) {
  switch (activation) {
    case Activation::silu:
      return run_backward<Silu>(dy, gate, up, count, dgate, dup);
    case Activation::gelu:
      return run_backward<Gelu>(dy, gate, up, count, dgate, dup);
    case Activation::gelu_tanh:
      return run_backward<GeluTanh>(dy, gate, up, count, dgate, dup);
    case Activation::relu:
      return run_backward<Relu>(dy, gate, up, count, dgate, dup);
  }
}

}  // namespace

template <class T>
GatedKernels<T> gated_kernels() {
  return {gated_forward<T>, gated_backward<T>};
}
HONE_INSTANTIATE_KERNELS(GatedKernels, gated_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
