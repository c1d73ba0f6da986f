// RMSNorm: one block per row; backward, one block for a few rows one after another.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

struct RmsNormForward {
  const Value *x, *residual, *weight;  // residual: null, there is none, and sum is not written
  Value *sum, *normed;
  Wide* inv_rms;
  Int rows, columns;
  Wide eps;
};

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
      const Value y = rounded<Value>(widened(x.at[k]) * inv_rms);
      x.at[k] = rounded<Value>(widened(y) * widened(weight.at[k]));
    }
    store<kCount>(a.normed + first, i, x);
  }
}

HONE_KERNEL rms_norm(const Value* x, const Value* residual, const Value* weight, Value* sum, Value* normed,
                     Wide* inv_rms, Int rows, Int columns, double eps, int wide) {
  let_next_begin();
  wait_for_before();
  const RmsNormForward all = {x, residual, weight, sum, normed, inv_rms, rows, columns, static_cast<Wide>(eps)};
  wide ? rms_norm_row<Widest<Value>::kCount>(all) : rms_norm_row<1>(all);
}

struct RmsNormBackward {
  const Value *dy, *extra, *weight, *sum;  // extra: null, there is none
  const Wide* inv_rms;
  Value* dx;
  Int columns;
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
      product += gradient * widened(weight.at[k]) * y;
      column_sum(dweight, i, k) += gradient * widened(rounded<Value>(y));  // y as the forward pass rounded it
    }
  }
  const Wide mean = block_sum(product) / a.columns;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> dy = load<kCount>(a.dy + first, i), x = load<kCount>(a.sum + first, i);
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    Pack<Value, kCount> extra = {}, dx;
    if (a.extra) extra = load<kCount>(a.extra + first, i);
    for (int k = 0; k < kCount; ++k) {
      Wide d = (widened(dy.at[k]) * widened(weight.at[k]) - widened(x.at[k]) * inv_rms * mean) * inv_rms;
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
                              int shared, int wide) {
  const RmsNormBackward all = {dy, extra, weight, sum, inv_rms, dx, columns};
  wide ? rms_norm_backward_rows<Widest<Value>::kCount>(all, dweight, rows, rows_per_block, shared)
       : rms_norm_backward_rows<1>(all, dweight, rows, rows_per_block, shared);
}
