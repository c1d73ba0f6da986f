// Tokens with several experts each: their slots by expert, and rows from tokens to slots and back.
//
// Slot n K + k is token n's choice k of K. Slots are sorted by their experts, those of one expert by their number:
// `slot` has them in that order, `place` where in it each stands.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

constexpr int kSlotThreads = 512, kSlotsAhead = 4;

// A warp's part of all slots: whole groups of 32.
struct SlotPart {
  Int first, end;
};
HONE_DEVICE SlotPart own_slots(Int slots) {
  const Int warps = blockDim.x / kWarp, groups = (slots + kWarp - 1) / kWarp, warp = threadIdx.x / kWarp;
  const Int end = groups * (warp + 1) / warps * kWarp;
  return {groups * warp / warps * kWarp, end < slots ? end : slots};
}

// Calls each(slot, expert) for a warp's slots in their order, for all lanes together: behind the end of the last ones.
template <class Each>
HONE_DEVICE void over_slots(const Int* expert, const SlotPart& part, Each&& each) {
  for (Int first = part.first; first < part.end; first += kSlotsAhead * kWarp) {
    Int own[kSlotsAhead];
    const Int lane = first + threadIdx.x % kWarp;
    HONE_UNROLL for (int i = 0; i < kSlotsAhead; ++i)
      own[i] = lane + i * kWarp < part.end ? expert[lane + i * kWarp] : -1;
    HONE_UNROLL for (int i = 0; i < kSlotsAhead; ++i) each(lane + i * kWarp, own[i]);
  }
}

// A block for each expert, which looks at all slots: counts those of experts before it and its own, then writes these.
HONE_KERNEL_OF(kSlotThreads)
sort_slots(const Int* expert, Int* slot, Int* place, Int* begin, Int slots) {
  __shared__ Int before[kMostWarps], own[kMostWarps];
  const SlotPart part = own_slots(slots);
  const Int self = blockIdx.x;
  const int warps = static_cast<int>(blockDim.x) / kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned lanes_before = (1u << threadIdx.x % kWarp) - 1;
  Int less = 0, equal = 0;
  over_slots(expert, part, [&](Int, Int e) {
    less += e >= 0 && e < self;
    equal += e == self;
  });
  for (int away = kWarp / 2; away > 0; away /= 2) {
    less += __shfl_xor_sync(kAllLanes, less, away);
    equal += __shfl_xor_sync(kAllLanes, equal, away);
  }
  if (threadIdx.x % kWarp == 0) before[warp] = less, own[warp] = equal;
  __syncthreads();
  Int at = 0, all = 0;
  for (int w = 0; w < warps; ++w) {
    at += before[w] + (w < warp ? own[w] : 0);
    all += before[w];
  }
  if (threadIdx.x == 0) begin[self] = all;
  if (threadIdx.x == 0 && self + 1 == gridDim.x) begin[gridDim.x] = slots;
  over_slots(expert, part, [&](Int i, Int e) {
    const unsigned same = __ballot_sync(kAllLanes, e == self);
    if (e == self) {
      const Int to = at + bits_set(same & lanes_before);
      slot[to] = i;
      place[i] = to;
    }
    at += bits_set(same);
  });
}

template <int kCount>
HONE_DEVICE void take_row(const Value* from, Value* to, Int packs) {
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) store<kCount>(to, i, load<kCount>(from, i));
}
// y[s] = x[the token of slot[s]]; rows of `columns` values.
HONE_KERNEL take_slots(const Value* x, const Int* slot, Value* y, Int slots, int per_token, Int columns, int wide) {
  const Int s = own_block();
  if (s >= slots) return;
  constexpr int kWide = Widest<Value>::kCount;
  const Value* from = x + static_cast<unsigned>(slot[s]) / static_cast<unsigned>(per_token) * columns;
  wide ? take_row<kWide>(from, y + s * columns, columns / kWide) : take_row<1>(from, y + s * columns, columns);
}

template <int kCount>
HONE_DEVICE void add_up_row(const Value* y, const Int* place, const Wide* weight, Value* sum, int per_token,
                            Int columns) {
  for (Int i = threadIdx.x; i < columns / kCount; i += blockDim.x) {
    Wide total[kCount] = {};
    for (int k = 0; k < per_token; ++k) {
      const Pack<Value, kCount> row = load<kCount>(y + place[k] * columns, i);
      const Wide share = weight ? weight[k] : 1;
      HONE_UNROLL for (int c = 0; c < kCount; ++c) total[c] += share * widened(row.at[c]);
    }
    Pack<Value, kCount> made;
    HONE_UNROLL for (int c = 0; c < kCount; ++c) made.at[c] = rounded<Value>(total[c]);
    store<kCount>(sum, i, made);
  }
}
// sum[n] = over k, in its order, weight[n, k] (null: 1) * y[place[n, k]].
HONE_KERNEL add_up(const Value* y, const Int* place, const Wide* weight, Value* sum, Int tokens, int per_token,
                   Int columns, int wide) {
  const Int n = own_block();
  if (n >= tokens) return;
  const Wide* shares = weight ? weight + n * per_token : nullptr;
  wide ? add_up_row<Widest<Value>::kCount>(y, place + n * per_token, shares, sum + n * columns, per_token, columns)
       : add_up_row<1>(y, place + n * per_token, shares, sum + n * columns, per_token, columns);
}

// Of one slot: what was multiplied, and where its gradients go.
struct RoutedRow {
  const Value *gate, *up;
  Value *d, *inner, *dgate;
  Wide weight;
};
template <int kCount>
HONE_DEVICE Wide routed_row(const RoutedRow& r, Int packs, int activation) {
  Wide dweight = 0;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    Pack<Value, kCount> d = load<kCount>(r.d, i), g = load<kCount>(r.gate, i), u = load<kCount>(r.up, i);
    HONE_UNROLL for (int k = 0; k < kCount; ++k) {
      const Activated<Wide> act = activated<Wide>(activation, widened(g.at[k]));
      const Wide up = widened(u.at[k]), inner = widened(rounded<Value>(act.value * up));
      dweight += widened(d.at[k]) * inner;
      const GatedSlopes<Wide> made = gated_slopes<Wide>(act, up, widened(d.at[k]) * r.weight);
      u.at[k] = rounded<Value>(inner * r.weight);
      g.at[k] = rounded<Value>(made.gate), d.at[k] = rounded<Value>(made.up);
    }
    store<kCount>(r.dgate, i, g);
    store<kCount>(r.inner, i, u);
    store<kCount>(r.d, i, d);
  }
  for (int away = kWarp / 2; away > 0; away /= 2) dweight += __shfl_xor_sync(kAllLanes, dweight, away);
  return dweight;
}
// d: the gradient of act(gate) * up of each slot before its weight; becomes up's gradient. inner: the product, times
// the weight. A warp for each slot.
HONE_KERNEL gated_slots_backward(Value* d, const Value* gate, const Value* up, const Wide* weight, const Int* slot,
                                 Value* inner, Value* dgate, Wide* dweight, Int slots, Int columns, int activation,
                                 int wide) {
  const Int s = own_block();
  if (s >= slots) return;
  const Int first = s * columns, own = slot[s];
  const RoutedRow row = {gate + first, up + first, d + first, inner + first, dgate + first, weight[own]};
  constexpr int kWide = Widest<Value>::kCount;
  const Wide sum = wide ? routed_row<kWide>(row, columns / kWide, activation) : routed_row<1>(row, columns, activation);
  if (threadIdx.x == 0) dweight[own] = sum;
}
