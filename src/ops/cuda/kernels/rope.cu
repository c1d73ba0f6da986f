// Rotation of the heads of a token, or back: one block per token. y may be x: each thread reads what it writes.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

struct Rotation {
  const Value* x;
  Value* y;  // both of this token
  const Wide *cos, *sin;  // of its row
  int heads, half;
  Wide sign;
};

template <int kCount>
HONE_DEVICE void rotate_token(const Rotation& a) {
  const int packs = a.half / kCount;  // of a half head
  for (int i = threadIdx.x; i < a.heads * packs; i += blockDim.x) {
    const int head = i / packs, at = i % packs;
    const Int low = static_cast<Int>(head) * 2 * packs + at;
    Pack<Value, kCount> first = load<kCount>(a.x, low), second = load<kCount>(a.x, low + packs);
    for (int k = 0; k < kCount; ++k) {
      const int place = at * kCount + k;
      rotate_pair(first.at[k], second.at[k], a.cos[place], a.sign * a.sin[place]);
    }
    store<kCount>(a.y, low, first);
    store<kCount>(a.y, low + packs, second);
  }
}

// Tokens lie x_stride and y_stride values apart; rows: where in cos and sin each token's angles are.
HONE_KERNEL rotate(const Value* x, Value* y, const Wide* cos, const Wide* sin, const Int* rows, Int x_stride,
                   Int y_stride, int heads, int half, int back, int wide) {
  let_next_begin();
  wait_for_before();
  const Int token = blockIdx.x, row = rows[token];
  const Rotation all = {x + token * x_stride, y + token * y_stride, cos + row * half, sin + row * half,
                        heads,                half,                 static_cast<Wide>(back ? -1 : 1)};
  wide ? rotate_token<Widest<Value>::kCount>(all) : rotate_token<1>(all);
}
