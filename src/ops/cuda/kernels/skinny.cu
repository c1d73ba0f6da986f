// Products of few rows with weights: a warp for a few outputs, whose weights it reads once for all rows.
//
// A lane adds up its own packs of a row in their order, one after another, and lanes are joined in a fixed one, and so
// are the warps that share rows of few long weights: a row's bits do not depend on how many rows there are.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

constexpr int kMostWeights = 4, kSkinnyThreads = 128;

struct FewRows {
  const Value* x;
  Int in;
  int rows, split;  // split: so many warps, neighbours in a block, have a part of each row
};

// For so many rows at most: the rows of weights that a warp reads together, and of each the packs on their way.
template <int kRows>
struct Together {
  static constexpr int kWeights = kRows == 1 ? 2 : 4, kPacks = kRows == 1 ? 4 : 8 / kRows;
};
template <int kRows>
struct WarpSums {
  Wide at[Together<kRows>::kWeights][kRows];
};

template <int kCount>
HONE_DEVICE bool is_there(const FewRows& few, Int pack, Int end) {
  return pack < end && pack < few.in / kCount;
}
template <int kCount, int kRows>
struct WarpWeights {
  Pack<Value, kCount> at[Together<kRows>::kPacks][Together<kRows>::kWeights];
};
// Of a step of the warp: packs from `first` on, those behind the end of its part, or of all, as zeros.
template <int kCount, int kRows>
HONE_DEVICE WarpWeights<kCount, kRows> load_weights(const FewRows& few,
                                                    const Value* const (&weights)[Together<kRows>::kWeights],
                                                    Int first, Int end) {
  WarpWeights<kCount, kRows> w = {};
  HONE_UNROLL for (int j = 0; j < Together<kRows>::kPacks; ++j)
    HONE_UNROLL for (int o = 0; o < Together<kRows>::kWeights; ++o)
      if (is_there<kCount>(few, first + j * kWarp, end)) w.at[j][o] = load<kCount>(weights[o], first + j * kWarp);
  return w;
}

template <int kCount, int kRows>
HONE_DEVICE void add_products(const FewRows& few, const WarpWeights<kCount, kRows>& w, Int first, Int end,
                              WarpSums<kRows>& sums) {
  HONE_UNROLL for (int j = 0; j < Together<kRows>::kPacks; ++j)
    HONE_UNROLL for (int r = 0; r < kRows; ++r) {
      Pack<Value, kCount> x = {};
      const int row = r < few.rows ? r : few.rows - 1;  // sums of further ones are not used
      if (is_there<kCount>(few, first + j * kWarp, end)) x = load<kCount>(few.x + row * few.in, first + j * kWarp);
      HONE_UNROLL for (int o = 0; o < Together<kRows>::kWeights; ++o)
        HONE_UNROLL for (int c = 0; c < kCount; ++c) sums.at[o][r] += widened(w.at[j][o].at[c]) * widened(x.at[c]);
    }
}

// Of each of the rows of weights with each row of x, of the warp's part of them, for all lanes. The first weights,
// which nothing has changed since long, are on their way before x is there.
template <int kCount, int kRows>
HONE_DEVICE void warp_products(const FewRows& few, const Value* const (&weights)[Together<kRows>::kWeights], int part,
                               WarpSums<kRows>& sums) {
  const Int steps = (few.in / kCount + kWarp - 1) / kWarp, end = steps * (part + 1) / few.split * kWarp;
  Int first = steps * part / few.split * kWarp + threadIdx.x % kWarp;
  auto w = load_weights<kCount, kRows>(few, weights, first, end);
  wait_for_before();
  while (true) {
    add_products<kCount>(few, w, first, end, sums);
    first += kWarp * Together<kRows>::kPacks;
    if (first / kWarp * kWarp >= end) break;
    w = load_weights<kCount, kRows>(few, weights, first, end);
  }
  for (int away = kWarp / 2; away > 0; away /= 2)
    HONE_UNROLL for (int o = 0; o < Together<kRows>::kWeights; ++o)
      HONE_UNROLL for (int r = 0; r < kRows; ++r)
        sums.at[o][r] += __shfl_xor_sync(kAllLanes, sums.at[o][r], away);
}

HONE_DEVICE int own_lane() { return static_cast<int>(threadIdx.x) % kWarp; }
// A warp's place in the line of all warps.
HONE_DEVICE Int own_warp() { return (static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp; }

struct Weights {
  const Value *weight, *bias;  // bias: null, there is none
  Int outs;
};
HONE_DEVICE const Value* row_of(const Weights& w, Int in, Int out) {
  return w.weight + (out < w.outs ? out : w.outs - 1) * in;
}
HONE_DEVICE Value with_bias(const Weights& w, Int out, Wide sum) {
  return rounded<Value>(w.bias ? sum + widened(w.bias[out]) : sum);
}

// Of all parts, for the first one. Every thread of the block comes here.
template <int kRows>
HONE_DEVICE void join_split(int split, WarpSums<kRows>& sums) {
  constexpr int kWeights = Together<kRows>::kWeights;
  __shared__ Wide room[kSkinnyThreads / kWarp][kWeights * kRows];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  HONE_UNROLL for (int i = 0; i < kWeights * kRows; ++i)
    if (own_lane() == i) room[warp][i] = sums.at[i / kRows][i % kRows];
  __syncthreads();
  if (warp % split != 0) return;
  for (int part = 1; part < split; ++part)
    HONE_UNROLL for (int i = 0; i < kWeights * kRows; ++i) sums.at[i / kRows][i % kRows] += room[warp + part][i];
}

template <int kCount, int kRows>
HONE_DEVICE void multiply(const FewRows& few, const Weights& w, Value* y) {
  constexpr int kWeights = Together<kRows>::kWeights;
  const Int first = own_warp() / few.split * kWeights;
  const int part = static_cast<int>(own_warp() % few.split);
  const Value* weights[kWeights];
  HONE_UNROLL for (int o = 0; o < kWeights; ++o) weights[o] = row_of(w, few.in, first + o);
  WarpSums<kRows> sums = {};
  if (first < w.outs) warp_products<kCount>(few, weights, part, sums);
  if (few.split > 1) join_split(few.split, sums);
  if (part > 0) return;
  HONE_UNROLL for (int o = 0; o < kWeights; ++o)
    HONE_UNROLL for (int r = 0; r < kRows; ++r) {
      const bool own = own_lane() == o * kRows + r && first + o < w.outs && r < few.rows;
      if (own) y[r * w.outs + first + o] = with_bias(w, first + o, sums.at[o][r]);
    }
}

// Half of the rows of weights are those of gate, half of up, of the same outputs.
template <int kCount, int kRows>
HONE_DEVICE void multiply_gated(const FewRows& few, const Weights& gate, const Weights& up, Value* y, int activation) {
  constexpr int kWeights = Together<kRows>::kWeights, kOuts = kWeights / 2;
  const Int first = own_warp() * kOuts;
  if (first >= gate.outs) return;
  const Value* weights[kWeights];
  HONE_UNROLL for (int o = 0; o < kOuts; ++o) {
    weights[o] = row_of(gate, few.in, first + o);
    weights[kOuts + o] = row_of(up, few.in, first + o);
  }
  WarpSums<kRows> sums = {};
  warp_products<kCount>(few, weights, /*part=*/0, sums);
  HONE_UNROLL for (int o = 0; o < kOuts; ++o)
    HONE_UNROLL for (int r = 0; r < kRows; ++r) {
      if (own_lane() != o * kRows + r || first + o >= gate.outs || r >= few.rows) continue;
      const Value g = with_bias(gate, first + o, sums.at[o][r]), u = with_bias(up, first + o, sums.at[kOuts + o][r]);
      y[r * gate.outs + first + o] =
          rounded<Value>(activated<Wide>(activation, widened(g)).value * widened(u));
    }
}

// Each of up to four weights [outs, in] (y) with x [rows, in], 1 to 8 rows, to [rows, outs]; x: enough blocks for two
// outputs of `split` warps.
HONE_KERNEL_OF(kSkinnyThreads)
products(const Value* x, HONE_LIST(const Value*, kMostWeights) weights, HONE_LIST(const Value*, kMostWeights) biases,
         HONE_LIST(Value*, kMostWeights) to, HONE_LIST(Int, kMostWeights) outs, Int in, int rows, int split,
         int wide) {
  let_next_begin();
  constexpr int kWide = Widest<Value>::kCount;
  const FewRows few = {x, in, rows, split};
  const Weights w = {weights.at[blockIdx.y], biases.at[blockIdx.y], outs.at[blockIdx.y]};
  Value* y = to.at[blockIdx.y];
  if (!wide) return multiply<1, 8>(few, w, y);
  if (rows == 1) return multiply<kWide, 1>(few, w, y);
  rows <= 4 ? multiply<kWide, 4>(few, w, y) : multiply<kWide, 8>(few, w, y);
}

// act(x gate) * (x up); x: enough blocks for one output of a warp.
HONE_KERNEL_OF(kSkinnyThreads)
gated_products(const Value* x, const Value* gate, const Value* gate_bias, const Value* up, const Value* up_bias,
               Value* y, Int outs, Int in, int rows, int activation, int wide) {
  let_next_begin();
  constexpr int kWide = Widest<Value>::kCount;
  const FewRows few = {x, in, rows, 1};
  const Weights low = {gate, gate_bias, outs}, high = {up, up_bias, outs};
  if (!wide) return multiply_gated<1, 8>(few, low, high, y, activation);
  if (rows == 1) return multiply_gated<kWide, 1>(few, low, high, y, activation);
  rows <= 4 ? multiply_gated<kWide, 4>(few, low, high, y, activation)
            : multiply_gated<kWide, 8>(few, low, high, y, activation);
}
