// act(gate) * up of an MLP, and its gradients; activation: the place in hone::ops::Activation.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

template <int kCount>
HONE_DEVICE void gated_all(const Value* gate, const Value* up, Value* y, Int count, int activation) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / kCount; i += step) {
    Pack<Value, kCount> g = load<kCount>(gate, i);
    const Pack<Value, kCount> u = load<kCount>(up, i);
    for (int k = 0; k < kCount; ++k)
      g.at[k] = rounded<Value>(activated<Wide>(activation, widened(g.at[k])).value * widened(u.at[k]));
    store<kCount>(y, i, g);
  }
}

HONE_KERNEL gated(const Value* gate, const Value* up, Value* y, Int count, int activation, int wide) {
  wide ? gated_all<Widest<Value>::kCount>(gate, up, y, count, activation)
       : gated_all<1>(gate, up, y, count, activation);
}

template <int kCount>
HONE_DEVICE void gated_backward_all(const Value* dy, const Value* gate, const Value* up, Value* dgate, Value* dup,
                                    Value* inner, Int count, int activation) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / kCount; i += step) {
    const Pack<Value, kCount> d = load<kCount>(dy, i);
    Pack<Value, kCount> g = load<kCount>(gate, i), u = load<kCount>(up, i), y;
    for (int k = 0; k < kCount; ++k) {
      const Activated<Wide> act = activated<Wide>(activation, widened(g.at[k]));
      y.at[k] = rounded<Value>(act.value * widened(u.at[k]));
      const GatedSlopes<Wide> made = gated_slopes<Wide>(act, widened(u.at[k]), widened(d.at[k]));
      g.at[k] = rounded<Value>(made.gate), u.at[k] = rounded<Value>(made.up);
    }
    store<kCount>(dgate, i, g);
    store<kCount>(dup, i, u);
    if (inner) store<kCount>(inner, i, y);
  }
}

// dup may be dy: each thread reads what it writes. inner: the product itself; null: not wanted.
HONE_KERNEL gated_backward(const Value* dy, const Value* gate, const Value* up, Value* dgate, Value* dup, Value* inner,
                           Int count, int activation, int wide) {
  wide ? gated_backward_all<Widest<Value>::kCount>(dy, gate, up, dgate, dup, inner, count, activation)
       : gated_backward_all<1>(dy, gate, up, dgate, dup, inner, count, activation);
}
