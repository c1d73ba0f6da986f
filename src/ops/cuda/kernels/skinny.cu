// Products of few rows with weights: a warp for a few outputs, whose weights it reads once for all rows, and then for
// the next ones. The rows may be the norms of others, which each block makes for itself.
//
// Weights come through the block's room, asked for several steps ahead of time and before there are any rows: so many
// of them are on their way that memory is never idle, not even between one kernel and the next, whose first weights
// come in beside the last ones of this one (types.h: wait_for_before). That wants room for two kernels at once.
//
// A lane adds up its own packs of a row in their order, one after another, and lanes are joined in a fixed one, and so
// are the warps that share rows of few long weights: a row's bits do not depend on how many rows there are.
#include "ops/cuda/kernels/cores.h"
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;
constexpr int kWidest = Widest<Value>::kCount;

constexpr int kMostWeights = 4, kMostRows = 8, kSkinnyThreads = 128, kNormThreads = 256;
constexpr int kSteps = 3, kStepPacks = 8;  // that are on their way or there, and a thread's packs of each

struct FewRows {
  const Value* x;
  Int in;
  int rows, split;  // split: so many warps, neighbours in a block, have a part of each row
};
// Of x + residual (null: of x), which becomes `sum`; weight null: rows are x itself.
struct FewNorm {
  const Value *x, *residual, *weight;
  Value* sum;
  Wide eps;
};

HONE_DEVICE int own_lane() { return static_cast<int>(threadIdx.x) % kWarp; }
HONE_DEVICE int own_warp() { return static_cast<int>(threadIdx.x) / kWarp; }

// What the block shares: weights of steps, a thread's beside its neighbours'; then, where there is a norm, rows and the
// norm's weights.
HONE_DEVICE Value* few_room() {
  using Packed = Pack<Value, kWidest>;
  HONE_SHARED_ROOM(Packed, room);
  return reinterpret_cast<Value*>(room);
}
template <int kCount>
HONE_DEVICE Value* place_of_weights(int step, int pack) {
  return few_room() + ((step * kStepPacks + pack) * kSkinnyThreads + static_cast<int>(threadIdx.x)) * kCount;
}
HONE_DEVICE Value* room_of_rows() { return few_room() + kSteps * kStepPacks * kSkinnyThreads * kWidest; }

// For the thread that asks for it alone; zeros where nothing is there.
template <int kCount>
HONE_DEVICE void copy_pack(Value* to, const Value* from, bool there) {
  if constexpr (kCount == kWidest)
    copy_ahead(to, from, there);
  else
    store<kCount>(to, 0, there ? load<kCount>(from, 0) : Pack<Value, kCount>{});
}

// Of a block's rows and its norm's weights a thread has packs threadIdx.x, that many threads on, and so on.
template <int kCount>
HONE_DEVICE void ask_for_norm(const FewRows& few, const FewNorm& norm) {
  Value* const to = room_of_rows() + few.rows * few.in;
  for (Int i = threadIdx.x; i < few.in / kCount; i += kSkinnyThreads)
    copy_pack<kCount>(to + i * kCount, norm.weight + i * kCount, true);
}
template <int kCount>
HONE_DEVICE void load_rows(const FewRows& few, FewNorm norm) {
  constexpr int kAtOnce = 4;
  if (blockIdx.x > 0) norm.sum = nullptr;  // the first block keeps it
  Value* const room = room_of_rows();
  const Int packs = few.rows * few.in / kCount;  // rows lie one behind another
  for (Int at = threadIdx.x; at < packs; at += kAtOnce * kSkinnyThreads) {
    Pack<Value, kCount> x[kAtOnce] = {}, residual[kAtOnce] = {};
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      if (const Int pack = at + i * kSkinnyThreads; pack < packs) {
        x[i] = load<kCount>(norm.x, pack);
        if (norm.residual) residual[i] = load<kCount>(norm.residual, pack);
      }
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      if (const Int pack = at + i * kSkinnyThreads; pack < packs) {
        if (norm.residual)
          HONE_UNROLL for (int k = 0; k < kCount; ++k)
            round_to(x[i].at[k], widened(x[i].at[k]) + widened(residual[i].at[k]));
        store<kCount>(room, pack, x[i]);
        if (norm.residual && norm.sum) store<kCount>(norm.sum, pack, x[i]);
      }
  }
}

// The rows' norms, in the block's room, with the bits of rms_norm.cu: squares are summed up as by that many threads.
// Every thread of the block comes here. kAskedSince: groups of copies since ask_for_norm().
template <int kCount, int kAskedSince>
HONE_DEVICE const Value* normed_rows(const FewRows& few, const FewNorm& norm) {
  __shared__ Wide of_warps[kMostRows * kNormThreads / kWarp];
  Value *const room = room_of_rows(), *const weights = room + few.rows * few.in;
  const int packs = static_cast<int>(few.in / kCount);
  int threads = kWarp;
  while (threads < kNormThreads && threads < packs) threads *= 2;
  const int parts = threads / kWarp;
  load_rows<kCount>(few, norm);
  wait_for_copies<kAskedSince>();
  __syncthreads();  // rows and weights are there
  for (int unit = own_warp(); unit < few.rows * parts; unit += kSkinnyThreads / kWarp) {
    const Value* const row = room + unit / parts * few.in;
    Wide squares = 0;
    for (int i = unit % parts * kWarp + own_lane(); i < packs; i += threads) {
      const Pack<Value, kCount> x = load<kCount>(row, i);
      HONE_UNROLL for (int k = 0; k < kCount; ++k) squares += widened(x.at[k]) * widened(x.at[k]);
    }
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) squares += __shfl_xor_sync(kAllLanes, squares, lanes);
    if (own_lane() == 0) of_warps[unit] = squares;
  }
  __syncthreads();
  for (int r = 0; r < few.rows; ++r) {
    Value* const row = room + r * few.in;
    Wide sum = of_warps[r * parts];
    for (int part = 1; part < parts; ++part) sum += of_warps[r * parts + part];
    const Wide inv_rms = 1 / square_root(sum / few.in + norm.eps);
    for (int i = threadIdx.x; i < packs; i += kSkinnyThreads) {
      Pack<Value, kCount> x = load<kCount>(row, i);
      const Pack<Value, kCount> weight = load<kCount>(weights, i);
      HONE_UNROLL for (int k = 0; k < kCount; ++k) {
        const Value y = rounded<Value>(widened(x.at[k]) * inv_rms);
        x.at[k] = rounded<Value>(widened(y) * widened(weight.at[k]));
      }
      store<kCount>(row, i, x);
    }
  }
  __syncthreads();
  return room;
}

// For so many rows at most: the rows of weights that a warp reads together, and of each the packs of a step.
template <int kRows>
struct Together {
  static constexpr int kWeights = kRows == 1 ? 2 : 4, kPacks = kStepPacks / kWeights;
};
template <int kRows>
struct WarpSums {
  Wide at[Together<kRows>::kWeights][kRows];
};

template <int kCount>
HONE_DEVICE bool is_there(const FewRows& few, int pack, int end) {
  return pack < end && pack < static_cast<int>(few.in) / kCount;
}
template <int kCount, int kRows>
HONE_DEVICE void add_products(const FewRows& few, int step, int first, int end, WarpSums<kRows>& sums) {
  constexpr int kWeights = Together<kRows>::kWeights;
  HONE_UNROLL for (int j = 0; j < Together<kRows>::kPacks; ++j) {
    Pack<Value, kCount> w[kWeights];
    HONE_UNROLL for (int o = 0; o < kWeights; ++o)
      w[o] = load<kCount>(place_of_weights<kCount>(step, j * kWeights + o), 0);
    HONE_UNROLL for (int r = 0; r < kRows; ++r) {
      Pack<Value, kCount> x = {};
      const int row = r < few.rows ? r : few.rows - 1;  // sums of further ones are not used
      if (is_there<kCount>(few, first + j * kWarp, end)) x = load<kCount>(few.x + row * few.in, first + j * kWarp);
      HONE_UNROLL for (int o = 0; o < kWeights; ++o)
        HONE_UNROLL for (int c = 0; c < kCount; ++c) sums.at[o][r] += widened(w[o].at[c]) * widened(x.at[c]);
    }
  }
}

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
  __syncthreads();  // the sums before have been read
  HONE_UNROLL for (int i = 0; i < kWeights * kRows; ++i)
    if (own_lane() == i) room[own_warp()][i] = sums.at[i / kRows][i % kRows];
  __syncthreads();
  if (own_warp() % split != 0) return;
  for (int part = 1; part < split; ++part)
    HONE_UNROLL for (int i = 0; i < kWeights * kRows; ++i) sums.at[i / kRows][i % kRows] += room[own_warp() + part][i];
}

// What a warp has of each group: packs from `begin` on, its lane's, as far as `end`, by steps; and groups that lie so
// far apart.
struct WarpShare {
  int begin, end;
  Int apart, groups;
};

// The step that is asked for next, and where.
template <int kCount, int kRows, class Groups>
struct Asking {
  static constexpr int kWeights = Together<kRows>::kWeights, kPacks = Together<kRows>::kPacks;
  const FewRows& few;
  const Groups& groups;
  const WarpShare& share;
  Int group;
  int first, step = 0;
  const Value* weights[kWeights] = {};

  HONE_ELEMENT void find() {
    first = share.begin;
    if (group < share.groups) groups.find(group, few.in, weights);
  }
  HONE_ELEMENT void ask() {
    if (group < share.groups)
      HONE_UNROLL for (int j = 0; j < kPacks; ++j)
        HONE_UNROLL for (int o = 0; o < kWeights; ++o) {
          const int pack = first + j * kWarp;
          const bool there = is_there<kCount>(few, pack, share.end);
          copy_pack<kCount>(place_of_weights<kCount>(step, j * kWeights + o),
                            weights[o] + (there ? static_cast<Int>(pack) * kCount : 0), there);
        }
    commit_copies();  // of nothing behind the end, so that the number of those on their way is always the same
    step = step + 1 < kSteps ? step + 1 : 0;
    first += kWarp * kPacks;
    if (first / kWarp * kWarp < share.end) return;
    group += share.apart;
    find();
  }
};

// Groups of outputs, of whose rows of weights a warp (or `split` of them) makes the products with all rows of x. The
// first weights, which nothing has changed since long, are on their way before x is there.
template <int kCount, int kRows, class Groups>
HONE_DEVICE void multiply_groups(const FewRows& given, const FewNorm& norm, const Groups& groups) {
  constexpr int kWeights = Together<kRows>::kWeights;
  const int together = kSkinnyThreads / kWarp / given.split, part = own_warp() % given.split;
  const int steps = static_cast<int>(given.in / kCount + kWarp - 1) / kWarp;
  const WarpShare share = {steps * part / given.split * kWarp + own_lane(), steps * (part + 1) / given.split * kWarp,
                           static_cast<Int>(gridDim.x) * together, groups.count()};
  Int group = static_cast<Int>(blockIdx.x) * together + own_warp() / given.split;
  if (norm.weight) ask_for_norm<kCount>(given, norm);
  commit_copies();
  Asking<kCount, kRows, Groups> asking = {given, groups, share, group, share.begin};
  asking.find();
  for (int step = 0; step < kSteps - 1; ++step) asking.ask();
  wait_for_before();
  FewRows few = given;
  if (norm.weight) few.x = normed_rows<kCount, kSteps - 1>(given, norm);
  int step = 0;
  // A block's warps make as many rounds.
  for (Int round = static_cast<Int>(blockIdx.x) * together; round < share.groups;
       round += share.apart, group += share.apart) {
    WarpSums<kRows> sums = {};
    for (int first = share.begin; group < share.groups;) {
      wait_for_copies<kSteps - 2>();
      asking.ask();  // for where the step before this one was: as many are on their way while this one is added
      add_products<kCount>(few, step, first, share.end, sums);
      step = step + 1 < kSteps ? step + 1 : 0;
      first += kWarp * Together<kRows>::kPacks;
      if (first / kWarp * kWarp >= share.end) break;
    }
    for (int away = kWarp / 2; away > 0; away /= 2)
      HONE_UNROLL for (int o = 0; o < kWeights; ++o)
        HONE_UNROLL for (int r = 0; r < kRows; ++r)
          sums.at[o][r] += __shfl_xor_sync(kAllLanes, sums.at[o][r], away);
    if (few.split > 1) join_split(few.split, sums);
    if (part == 0 && group < share.groups) groups.write(group, few.rows, sums);
  }
}

// Up to four weights [outs, in] and where their products go, [rows, outs].
struct FewWeights {
  const List<const Value*, kMostWeights>&weights, &biases;
  const List<Value*, kMostWeights>& to;
  const List<Int, kMostWeights>& outs;  // 0 behind the last one
};
template <int kRows>
struct ProductGroups {
  static constexpr int kWeights = Together<kRows>::kWeights;
  const FewWeights& all;
  HONE_ELEMENT Int count() const {
    Int sum = 0;
    HONE_UNROLL for (int i = 0; i < kMostWeights; ++i) sum += groups_of(i);
    return sum;
  }
  HONE_ELEMENT Int groups_of(int i) const { return (all.outs.at[i] + kWeights - 1) / kWeights; }
  // The weight that a group is of; `group` becomes its number there.
  HONE_ELEMENT int weight_of(Int& group) const {
    int i = 0;
    for (; i + 1 < kMostWeights && group >= groups_of(i); ++i) group -= groups_of(i);
    return i;
  }
  HONE_ELEMENT Weights own(int i) const { return {all.weights.at[i], all.biases.at[i], all.outs.at[i]}; }
  HONE_ELEMENT void find(Int group, Int in, const Value* (&weights)[kWeights]) const {
    const Weights w = own(weight_of(group));
    HONE_UNROLL for (int o = 0; o < kWeights; ++o) weights[o] = row_of(w, in, group * kWeights + o);
  }
  HONE_ELEMENT void write(Int group, int rows, const WarpSums<kRows>& sums) const {
    const int i = weight_of(group);
    const Weights w = own(i);
    HONE_UNROLL for (int o = 0; o < kWeights; ++o)
      HONE_UNROLL for (int r = 0; r < kRows; ++r) {
        const Int out = group * kWeights + o;
        if (own_lane() == o * kRows + r && out < w.outs && r < rows)
          all.to.at[i][r * w.outs + out] = with_bias(w, out, sums.at[o][r]);
      }
  }
};

// act(x gate) * (x up): half of the rows of weights are those of gate, half of up, of the same outputs.
template <int kRows>
struct GatedGroups {
  static constexpr int kWeights = Together<kRows>::kWeights, kOuts = kWeights / 2;
  Weights gate, up;
  Value* y;
  int activation;
  HONE_ELEMENT Int count() const { return (gate.outs + kOuts - 1) / kOuts; }
  HONE_ELEMENT void find(Int group, Int in, const Value* (&weights)[kWeights]) const {
    HONE_UNROLL for (int o = 0; o < kOuts; ++o) {
      weights[o] = row_of(gate, in, group * kOuts + o);
      weights[kOuts + o] = row_of(up, in, group * kOuts + o);
    }
  }
  HONE_ELEMENT void write(Int group, int rows, const WarpSums<kRows>& sums) const {
    HONE_UNROLL for (int o = 0; o < kOuts; ++o)
      HONE_UNROLL for (int r = 0; r < kRows; ++r) {
        const Int out = group * kOuts + o;
        if (own_lane() != o * kRows + r || out >= gate.outs || r >= rows) continue;
        const Value g = with_bias(gate, out, sums.at[o][r]), u = with_bias(up, out, sums.at[kOuts + o][r]);
        y[r * gate.outs + out] = rounded<Value>(activated<Wide>(activation, widened(g)).value * widened(u));
      }
  }
};

// How many rows, and how many values a thread reads at once: one row in whole accesses has kernels of its own, since
// all of a kernel's threads get as many registers as its most.
enum { kOneRow, kMoreRows };
template <int kRows, class Run>
HONE_DEVICE void by_rows(int rows, int wide, Run&& run) {
  constexpr int kWide = Widest<Value>::kCount;
  if constexpr (kRows == kOneRow)
    run.template operator()<kWide, 1>();
  else if (!wide)
    run.template operator()<1, 8>();
  else if (rows <= 4)
    run.template operator()<kWide, 4>();
  else
    run.template operator()<kWide, 8>();
}

struct RunProducts {
  const FewRows& few;
  const FewNorm& norm;
  const FewWeights& all;
  template <int kCount, int kRows>
  HONE_ELEMENT void operator()() const {
    multiply_groups<kCount, kRows>(few, norm, ProductGroups<kRows>{all});
  }
};
// The products of x [rows, in], 1 to 8 rows, or of its norm.
#define HONE_PRODUCTS(name, which)                                                                                    \
  HONE_KERNEL_OF(kSkinnyThreads)                                                                                      \
  name(const Value* x, HONE_LIST(const Value*, kMostWeights) weights, HONE_LIST(const Value*, kMostWeights) biases,   \
       HONE_LIST(Value*, kMostWeights) to, HONE_LIST(Int, kMostWeights) outs, Int in, int rows, int split,            \
       const Value* residual, const Value* norm, Value* sum, double eps, int wide) {                                  \
    let_next_begin();                                                                                                 \
    const FewRows few = {x, in, rows, split};                                                                         \
    const FewNorm by = {x, residual, norm, sum, static_cast<Wide>(eps)};                                              \
    by_rows<which>(rows, wide, RunProducts{few, by, FewWeights{weights, biases, to, outs}});                          \
  }
HONE_PRODUCTS(products_of_row, kOneRow)
HONE_PRODUCTS(products, kMoreRows)

struct RunGated {
  const FewRows& few;
  const FewNorm& norm;
  Weights gate, up;
  Value* y;
  int activation;
  template <int kCount, int kRows>
  HONE_ELEMENT void operator()() const {
    multiply_groups<kCount, kRows>(few, norm, GatedGroups<kRows>{gate, up, y, activation});
  }
};
#define HONE_GATED_PRODUCTS(name, which)                                                                              \
  HONE_KERNEL_OF(kSkinnyThreads)                                                                                      \
  name(const Value* x, const Value* gate, const Value* gate_bias, const Value* up, const Value* up_bias, Value* y,    \
       Int outs, Int in, int rows, int activation, const Value* residual, const Value* norm, Value* sum, double eps,  \
       int wide) {                                                                                                    \
    let_next_begin();                                                                                                 \
    const FewRows few = {x, in, rows, 1};                                                                             \
    const FewNorm by = {x, residual, norm, sum, static_cast<Wide>(eps)};                                              \
    by_rows<which>(rows, wide, RunGated{few, by, {gate, gate_bias, outs}, {up, up_bias, outs}, y, activation});       \
  }
HONE_GATED_PRODUCTS(gated_products_of_row, kOneRow)
HONE_GATED_PRODUCTS(gated_products, kMoreRows)
