// RMSNorm: one block per row; backward, one block for a few rows one after another.
//
// Rows in whole accesses that are not too long are read once: a team of threads of a warp, of a whole one or of several
// keeps a row in registers, kPacks accesses each, and sums for the weights too. So a multiprocessor has enough bytes on
// their way, and a row that fits a warp is nobody's to wait for.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

struct RmsNormForward {
  const Value *x, *residual, *weight;  // residual: null, there is none, and sum is not written
  Value *sum, *normed;
  Wide* inv_rms;
  Int rows, columns;
  Wide eps;
  int factor;  // an RmsFactor
};

constexpr int kRoundedFirst = 0, kOnePlusWeight = 2;  // of RmsFactor
HONE_DEVICE Wide norm_factor(int factor, Value weight) {
  return factor == kOnePlusWeight ? 1 + widened(weight) : widened(weight);
}
HONE_DEVICE Wide norm_multiplied(int factor, Wide normed) {
  return factor == kRoundedFirst ? widened(rounded<Value>(normed)) : normed;
}

template <int kCount>
HONE_DEVICE void rms_norm_row(const RmsNormForward& a) {
  const Int row = own_block(), first = row * a.columns;
  if (row >= a.rows) return;
  const Int packs = a.columns / kCount;
  const Value* from = a.residual ? a.sum + first : a.x + first;
  Wide squares = 0;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> x = load_sum<kCount>(a, first, i);
    for (int k = 0; k < kCount; ++k) squares += widened(x.at[k]) * widened(x.at[k]);
  }
  const Wide inv_rms = 1 / square_root(block_sum(squares) / a.columns + a.eps);
  if (threadIdx.x == 0) a.inv_rms[row] = inv_rms;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {  // what this thread itself has written above
    Pack<Value, kCount> x = load<kCount>(from, i);
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide y = norm_multiplied(a.factor, widened(x.at[k]) * inv_rms);
      x.at[k] = rounded<Value>(y * norm_factor(a.factor, weight.at[k]));
    }
    store<kCount>(a.normed + first, i, x);
  }
}

HONE_KERNEL rms_norm(const Value* x, const Value* residual, const Value* weight, Value* sum, Value* normed,
                     Wide* inv_rms, Int rows, Int columns, double eps, int factor, int wide) {
  let_next_begin();
  wait_for_before();
  const RmsNormForward all = {x,       residual, weight, sum,  normed,
                              inv_rms, rows,     columns, static_cast<Wide>(eps), factor};
  wide ? rms_norm_row<Widest<Value>::kCount>(all) : rms_norm_row<1>(all);
}

// A thread's place in the team that has its row, of so many lanes: a power of two. Teams of several warps are blocks.
struct NormTeam {
  int lanes, place, number, of_block;
};
HONE_DEVICE NormTeam own_norm_team(int lanes) {
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  return {lanes, thread % lanes, thread / lanes, static_cast<int>(blockDim.x * blockDim.y) / lanes};
}
// Over the team, for all of it. Every thread of the block comes here.
HONE_DEVICE Wide team_sum(const NormTeam& team, Wide x) {
  if (team.lanes > kWarp) return block_sum(x);
  for (int lanes = team.lanes / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
  return x;
}

constexpr int kNormWide = Widest<Value>::kCount;
using NormPack = Pack<Value, kNormWide>;

// An access's values as they lie in memory, in a quarter or half of the registers that they would take in fp32.
struct NormWords {
  unsigned at[sizeof(NormPack) / sizeof(unsigned)];
};
HONE_DEVICE NormWords load_norm_words(const Value* from, Int pack) {
  HONE_ACCESS(from, sizeof(NormWords));
  const auto made = load<4>(reinterpret_cast<const unsigned*>(from), pack);
  return {made.at[0], made.at[1], made.at[2], made.at[3]};
}
HONE_DEVICE NormWords norm_words_if(bool there, const Value* from, Int pack) {
  NormWords made = {};
  if (there) made = load_norm_words(from, pack);
  return made;
}
// Made anew wherever they are asked for: what is wider is not kept for the next time.
HONE_DEVICE NormPack norm_values_of(NormWords words) {
#if defined(__CUDA_ARCH__)
  HONE_UNROLL for (unsigned& word : words.at) asm volatile("" : "+r"(word));
#endif
  union {
    NormWords words;
    NormPack values;
  } both = {words};
  return both.values;
}
HONE_DEVICE NormWords norm_words_of(const NormPack& values) {
  union {
    NormPack values;
    NormWords words;
  } both = {values};
  return both.words;
}

template <int kPacks>
HONE_DEVICE void rms_norm_kept(const RmsNormForward& a, int lanes) {
  const NormTeam team = own_norm_team(lanes);
  const int packs = static_cast<int>(a.columns) / kNormWide;
  const Int row = static_cast<Int>(blockIdx.x) * team.of_block + team.number, first = row * a.columns;
  const auto has = [&](int p) { return row < a.rows && team.place + p * lanes < packs; };
  NormWords x[kPacks] = {}, residual[kPacks] = {};
  HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
    x[p] = norm_words_if(has(p), a.x + first, team.place + p * lanes);
    residual[p] = norm_words_if(a.residual && has(p), a.residual + first, team.place + p * lanes);
  }
  Wide squares = 0;
  HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
    NormPack values = norm_values_of(x[p]);
    if (a.residual) {
      const NormPack added = norm_values_of(residual[p]);
      HONE_UNROLL for (int k = 0; k < kNormWide; ++k)
        round_to(values.at[k], widened(values.at[k]) + widened(added.at[k]));
      x[p] = norm_words_of(values);
      if (a.sum && has(p)) store<kNormWide>(a.sum + first, team.place + p * lanes, values);
    }
    HONE_UNROLL for (int k = 0; k < kNormWide; ++k) squares += widened(values.at[k]) * widened(values.at[k]);
  }
  const Wide inv_rms = 1 / square_root(team_sum(team, squares) / a.columns + a.eps);
  if (team.place == 0 && row < a.rows) a.inv_rms[row] = inv_rms;
  HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
    const NormPack weight = norm_values_of(norm_words_if(has(p), a.weight, team.place + p * lanes));
    NormPack values = norm_values_of(x[p]);
    HONE_UNROLL for (int k = 0; k < kNormWide; ++k) {
      const Wide y = norm_multiplied(a.factor, widened(values.at[k]) * inv_rms);
      values.at[k] = rounded<Value>(y * norm_factor(a.factor, weight.at[k]));
    }
    if (has(p)) store<kNormWide>(a.normed + first, team.place + p * lanes, values);
  }
}

#define HONE_NORM_KEPT(kPacks)                                                                                      \
  HONE_KERNEL_OF(256)                                                                                               \
  rms_norm_kept_##kPacks(const Value* x, const Value* residual, const Value* weight, Value* sum, Value* normed,     \
                         Wide* inv_rms, Int rows, Int columns, double eps, int factor, int lanes) {          \
    let_next_begin();                                                                                               \
    wait_for_before();                                                                                              \
    const Wide added = static_cast<Wide>(eps);                                                                      \
    rms_norm_kept<kPacks>({x, residual, weight, sum, normed, inv_rms, rows, columns, added, factor}, lanes); \
  }
HONE_NORM_KEPT(1)
HONE_NORM_KEPT(2)
HONE_NORM_KEPT(4)
HONE_NORM_KEPT(8)
#undef HONE_NORM_KEPT

struct RmsNormBackward {
  const Value *dy, *extra, *weight, *sum;  // extra: null, there is none
  const Wide* inv_rms;
  Value* dx;
  Int columns;
  int factor;
};

template <int kCount>
HONE_DEVICE void rms_norm_backward_row(const RmsNormBackward& a, const ColumnSums<kCount, Wide>& dweight, Int row) {
  const Int first = row * a.columns, packs = a.columns / kCount;
  const Wide inv_rms = a.inv_rms[row];
  Wide product = 0;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> dy = load<kCount>(a.dy + first, i), x = load<kCount>(a.sum + first, i);
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide gradient = widened(dy.at[k]), y = widened(x.at[k]) * inv_rms;
      product += gradient * norm_factor(a.factor, weight.at[k]) * y;
      column_sum(dweight, i, k) += gradient * norm_multiplied(a.factor, y);  // as the forward pass rounded it
    }
  }
  const Wide mean = block_sum(product) / a.columns;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> dy = load<kCount>(a.dy + first, i), x = load<kCount>(a.sum + first, i);
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    Pack<Value, kCount> extra = {}, dx;
    if (a.extra) extra = load<kCount>(a.extra + first, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide g = widened(dy.at[k]) * norm_factor(a.factor, weight.at[k]);
      Wide d = (g - widened(x.at[k]) * inv_rms * mean) * inv_rms;
      if (a.extra) d += widened(extra.at[k]);
      dx.at[k] = rounded<Value>(d);
    }
    store<kCount>(a.dx + first, i, dx);
  }
}

template <int kCount>
HONE_DEVICE void rms_norm_backward_rows(const RmsNormBackward& a, Wide* dweight, Int rows, Int rows_per_block,
                                        bool shared) {
  HONE_SHARED_ROOM(Wide, room);
  const Int begin = own_block() * rows_per_block;
  if (begin >= rows) return;
  const ColumnSums<kCount, Wide> sums = {shared ? room + threadIdx.y * a.columns : nullptr,
                                         dweight + own_block() * a.columns, a.columns / kCount};
  begin_sums(sums);
  for (Int row = begin; row < begin + rows_per_block && row < rows; ++row) rms_norm_backward_row(a, sums, row);
  end_sums(sums);
}

// dweight: a row of sums of each block; shared: they fit the block's room meanwhile.
HONE_KERNEL rms_norm_backward(const Value* dy, const Value* extra, const Value* weight, const Value* sum,
                              const Wide* inv_rms, Value* dx, Wide* dweight, Int rows, Int columns, Int rows_per_block,
                              int shared, int factor, int wide) {
  const RmsNormBackward all = {dy, extra, weight, sum, inv_rms, dx, columns, factor};
  wide ? rms_norm_backward_rows<Widest<Value>::kCount>(all, dweight, rows, rows_per_block, shared)
       : rms_norm_backward_rows<1>(all, dweight, rows, rows_per_block, shared);
}

// What a thread keeps of a row.
template <int kPacks>
struct KeptNormRow {
  NormWords dy[kPacks], x[kPacks], extra[kPacks];
  Wide inv_rms;
};

template <int kPacks>
HONE_DEVICE void load_kept_row(const RmsNormBackward& a, const NormTeam& team, Int row, bool there,
                               KeptNormRow<kPacks>& kept) {
  const int packs = there ? static_cast<int>(a.columns) / kNormWide : 0;
  const Int first = row * a.columns;
  kept.inv_rms = there ? a.inv_rms[row] : 0;
  HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
    const int at = team.place + p * team.lanes;
    kept.dy[p] = norm_words_if(at < packs, a.dy + first, at);
    kept.x[p] = norm_words_if(at < packs, a.sum + first, at);
    kept.extra[p] = norm_words_if(a.extra && at < packs, a.extra + first, at);
  }
}

template <int kPacks>
HONE_DEVICE void store_kept_row(const RmsNormBackward& a, const NormTeam& team, Int row,
                                const KeptNormRow<kPacks>& kept, Wide mean) {
  const int packs = static_cast<int>(a.columns) / kNormWide;
  HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
    const int at = team.place + p * team.lanes;
    const NormPack weight = norm_values_of(norm_words_if(at < packs, a.weight, at));
    const NormPack dy = norm_values_of(kept.dy[p]), x = norm_values_of(kept.x[p]),
                   extra = norm_values_of(kept.extra[p]);
    NormPack dx;
    HONE_UNROLL for (int k = 0; k < kNormWide; ++k) {
      const Wide g = widened(dy.at[k]) * norm_factor(a.factor, weight.at[k]);
      Wide d = (g - widened(x.at[k]) * kept.inv_rms * mean) * kept.inv_rms;
      if (a.extra) d += widened(extra.at[k]);
      dx.at[k] = rounded<Value>(d);
    }
    if (at < packs) store<kNormWide>(a.dx + row * a.columns, at, dx);
  }
}

// The sums of all teams of a block, one after another, each of its own columns; `room` for those of a warp.
template <int kPacks>
HONE_DEVICE void store_kept_sums(const RmsNormBackward& a, const NormTeam& team, Wide (&sums)[kPacks][kNormWide],
                                 Wide* dweight, Wide* room) {
  const int packs = static_cast<int>(a.columns) / kNormWide, warps = blockDim.y;
  HONE_UNROLL for (int p = 0; p < kPacks; ++p)
    HONE_UNROLL for (int k = 0; k < kNormWide; ++k)
      for (int lanes = team.lanes; lanes < kWarp; lanes *= 2)
        sums[p][k] += __shfl_xor_sync(kAllLanes, sums[p][k], lanes);
  for (int warp = 0; warp < warps; ++warp) {
    if (static_cast<int>(threadIdx.y) == warp) {
      HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
        Wide* const at = room + p * kNormWide * kWarp + threadIdx.x % kWarp;
        HONE_UNROLL for (int k = 0; k < kNormWide; ++k) {
          if (warp > 0) sums[p][k] += at[k * kWarp];
          if (warp + 1 < warps) at[k * kWarp] = sums[p][k];
        }
        const int pack = team.place + p * team.lanes;
        const bool first = static_cast<int>(threadIdx.x) < team.lanes;  // of teams of a warp: all have the same sums
        if (warp + 1 < warps || pack >= packs || !first) continue;
        HONE_UNROLL for (int k = 0; k < kNormWide; ++k) dweight[pack * kNormWide + k] = sums[p][k];
      }
    }
    __syncthreads();
  }
}

// Every team kRows rows at once, every block those behind each other, then as many blocks further.
template <int kPacks, int kRows>
HONE_DEVICE void rms_norm_backward_kept(const RmsNormBackward& a, Wide* dweight, Int rows, int lanes) {
  __shared__ Wide room[kPacks * kNormWide * kWarp];
  const NormTeam team = own_norm_team(lanes);
  const int packs = static_cast<int>(a.columns) / kNormWide;
  const Int each = kRows * team.of_block;
  Wide sums[kPacks][kNormWide] = {};
  for (Int begin = blockIdx.x * each; begin < rows; begin += gridDim.x * each) {
    KeptNormRow<kPacks> kept[kRows];
    HONE_UNROLL for (int r = 0; r < kRows; ++r) {
      const Int row = begin + r * team.of_block + team.number;
      load_kept_row(a, team, row, row < rows, kept[r]);
    }
    Wide products[kRows] = {};
    HONE_UNROLL for (int p = 0; p < kPacks; ++p) {
      const int at = team.place + p * lanes;
      const NormPack weight = norm_values_of(norm_words_if(at < packs, a.weight, at));
      HONE_UNROLL for (int r = 0; r < kRows; ++r) {
        const NormPack dy = norm_values_of(kept[r].dy[p]), x = norm_values_of(kept[r].x[p]);
        HONE_UNROLL for (int k = 0; k < kNormWide; ++k) {
          const Wide gradient = widened(dy.at[k]), y = widened(x.at[k]) * kept[r].inv_rms;
          products[r] += gradient * norm_factor(a.factor, weight.at[k]) * y;
          sums[p][k] += gradient * norm_multiplied(a.factor, y);  // as the forward pass rounded it
        }
      }
    }
    HONE_UNROLL for (int r = 0; r < kRows; ++r) {
      const Int row = begin + r * team.of_block + team.number;
      const Wide mean = team_sum(team, products[r]) / a.columns;
      if (row < rows) store_kept_row(a, team, row, kept[r], mean);
    }
  }
  store_kept_sums(a, team, sums, dweight + static_cast<Int>(blockIdx.x) * a.columns, room);
}

// dweight: a row of sums of each block.
#define HONE_NORM_BACKWARD_KEPT(kPacks, kRows)                                                                \
  HONE_KERNEL_OF(256)                                                                                         \
  rms_norm_backward_kept_##kPacks(const Value* dy, const Value* extra, const Value* weight, const Value* sum, \
                                  const Wide* inv_rms, Value* dx, Wide* dweight, Int rows, Int columns,       \
                                  int factor, int lanes) {                                             \
    let_next_begin();                                                                                         \
    wait_for_before();                                                                                        \
    const RmsNormBackward all = {dy, extra, weight, sum, inv_rms, dx, columns, factor};                \
    rms_norm_backward_kept<kPacks, kRows>(all, dweight, rows, lanes);                                         \
  }
HONE_NORM_BACKWARD_KEPT(1, 4)
HONE_NORM_BACKWARD_KEPT(2, 2)
HONE_NORM_BACKWARD_KEPT(4, 1)
HONE_NORM_BACKWARD_KEPT(8, 1)
#undef HONE_NORM_BACKWARD_KEPT
