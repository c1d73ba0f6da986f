// act(gate) * up of an MLP, and its gradients; activation: the place in hone::ops::Activation. And x *= a number.
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
  let_next_begin();
  wait_for_before();
  wide ? gated_all<Widest<Value>::kCount>(gate, up, y, count, activation)
       : gated_all<1>(gate, up, y, count, activation);
}

// Gradients have rows of so many values, so far apart; the rest lies dense.
struct Apart {
  Int columns, apart;
};
// Where an access of dense values is in a matrix of such rows. Divisions of 32 bits, where they will do, are short.
template <int kCount>
HONE_DEVICE Int place_of(const Apart& rows, Int pack, Int all) {
  if (rows.columns == rows.apart) return pack;
  const Int columns = rows.columns / kCount;
  const auto narrow = [](Int x) { return static_cast<unsigned>(x); };
  const Int row = all >> 32 ? pack / columns : static_cast<Int>(narrow(pack) / narrow(columns));
  return row * (rows.apart / kCount) + (pack - row * columns);
}

template <int kCount>
HONE_DEVICE void gated_backward_all(const Value* dy, const Value* gate, const Value* up, Value* dgate, Value* dup,
                                    Value* inner, Int count, const Apart& rows, int activation) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / kCount; i += step) {
    const Int place = place_of<kCount>(rows, i, count);
    const Pack<Value, kCount> d = load<kCount>(dy, place);
    Pack<Value, kCount> g = load<kCount>(gate, i), u = load<kCount>(up, i), y;
    for (int k = 0; k < kCount; ++k) {
      const Activated<Wide> act = activated<Wide>(activation, widened(g.at[k]));
      y.at[k] = rounded<Value>(act.value * widened(u.at[k]));
      const GatedSlopes<Wide> made = gated_slopes<Wide>(act, widened(u.at[k]), widened(d.at[k]));
      g.at[k] = rounded<Value>(made.gate), u.at[k] = rounded<Value>(made.up);
    }
    store<kCount>(dgate, place, g);
    store<kCount>(dup, place, u);
    if (inner) store<kCount>(inner, i, y);
  }
}

// dup may be dy: each thread reads what it writes. inner: the product itself; null: not wanted.
HONE_KERNEL gated_backward(const Value* dy, const Value* gate, const Value* up, Value* dgate, Value* dup, Value* inner,
                           Int count, Int columns, Int apart, int activation, int wide) {
  let_next_begin();
  wait_for_before();
  const Apart rows = {columns, apart};
  wide ? gated_backward_all<Widest<Value>::kCount>(dy, gate, up, dgate, dup, inner, count, rows, activation)
       : gated_backward_all<1>(dy, gate, up, dgate, dup, inner, count, rows, activation);
}

template <int kCount>
HONE_DEVICE void multiply_all(Value* x, Wide factor, Int count) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / kCount; i += step) {
    Pack<Value, kCount> pack = load<kCount>(x, i);
    for (int k = 0; k < kCount; ++k) pack.at[k] = rounded<Value>(widened(pack.at[k]) * factor);
    store<kCount>(x, i, pack);
  }
}

// x *= factor, which is there; by 1 nothing is read or written.
HONE_KERNEL multiply(Value* x, const Wide* factor, Int count, int wide) {
  const Wide by = *factor;
  if (by == 1) return;
  wide ? multiply_all<Widest<Value>::kCount>(x, by, count) : multiply_all<1>(x, by, count);
}
