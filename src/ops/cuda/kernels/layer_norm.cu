// LayerNorm: one block per row; backward, one block for a few rows one after another.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

struct LayerNormForward {
  const Value *x, *residual, *weight, *bias;  // residual, bias: null, there is none; without a residual no sum
  Value *sum, *normed;
  Wide *mean, *inv_std;
  Int rows, columns;
  Wide eps;
};

template <int kCount>
HONE_DEVICE void layer_norm_row(const LayerNormForward& a) {
  const Int row = own_block(), first = row * a.columns;
  if (row >= a.rows) return;
  const Int packs = a.columns / kCount;
  const Value* from = a.residual ? a.sum + first : a.x + first;
  Wide total = 0, squares = 0;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> x = load_sum<kCount>(a, first, i);
    for (int k = 0; k < kCount; ++k) total += widened(x.at[k]);
  }
  const Wide mean = block_sum(total) / a.columns;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {  // about the mean: a difference of squares would cancel
    const Pack<Value, kCount> x = load<kCount>(from, i);
    for (int k = 0; k < kCount; ++k) squares += (widened(x.at[k]) - mean) * (widened(x.at[k]) - mean);
  }
  const Wide inv_std = 1 / square_root(block_sum(squares) / a.columns + a.eps);
  if (threadIdx.x == 0) {
    a.mean[row] = mean;
    a.inv_std[row] = inv_std;
  }
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    Pack<Value, kCount> x = load<kCount>(from, i), bias = {};
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    if (a.bias) bias = load<kCount>(a.bias, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide y = (widened(x.at[k]) - mean) * inv_std * widened(weight.at[k]);
      x.at[k] = rounded<Value>(a.bias ? y + widened(bias.at[k]) : y);
    }
    store<kCount>(a.normed + first, i, x);
  }
}

HONE_KERNEL layer_norm(const Value* x, const Value* residual, const Value* weight, const Value* bias, Value* sum,
                       Value* normed, Wide* mean, Wide* inv_std, Int rows, Int columns, double eps, int wide) {
  const LayerNormForward all = {x,    residual, weight, bias,    sum, normed,
                                mean, inv_std,  rows,   columns, static_cast<Wide>(eps)};
  wide ? layer_norm_row<Widest<Value>::kCount>(all) : layer_norm_row<1>(all);
}

struct LayerNormBackward {
  const Value *dy, *extra, *weight, *sum;  // extra: null, there is none
  const Wide *mean, *inv_std;
  Value* dx;
  Int columns;
};

template <int kCount>
HONE_DEVICE void layer_norm_backward_row(const LayerNormBackward& a, const ColumnSums<kCount, Wide>& dweight,
                                         const ColumnSums<kCount, Wide>& dbias, Int row) {
  const Int first = row * a.columns, packs = a.columns / kCount;
  const Wide centre = a.mean[row], inv_std = a.inv_std[row];
  Wide total = 0, product = 0;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> dy = load<kCount>(a.dy + first, i), x = load<kCount>(a.sum + first, i);
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide gradient = widened(dy.at[k]), y = (widened(x.at[k]) - centre) * inv_std;
      const Wide g = gradient * widened(weight.at[k]);
      total += g;
      product += g * y;
      column_sum(dweight, i, k) += gradient * y;
      column_sum(dbias, i, k) += gradient;
    }
  }
  const Wide mean = block_sum(total) / a.columns, mean_product = block_sum(product) / a.columns;
  for (Int i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<Value, kCount> dy = load<kCount>(a.dy + first, i), x = load<kCount>(a.sum + first, i);
    const Pack<Value, kCount> weight = load<kCount>(a.weight, i);
    Pack<Value, kCount> extra = {}, dx;
    if (a.extra) extra = load<kCount>(a.extra + first, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide y = (widened(x.at[k]) - centre) * inv_std;
      Wide d = (widened(dy.at[k]) * widened(weight.at[k]) - mean - y * mean_product) * inv_std;
      if (a.extra) d += widened(extra.at[k]);
      dx.at[k] = rounded<Value>(d);
    }
    store<kCount>(a.dx + first, i, dx);
  }
}

template <int kCount>
HONE_DEVICE void layer_norm_backward_rows(const LayerNormBackward& a, Wide* dweight, Wide* dbias, Int rows,
                                          Int rows_per_block, bool shared) {
  HONE_SHARED_ROOM(Wide, room);
  const Int begin = own_block() * rows_per_block;
  if (begin >= rows) return;
  const Int packs = a.columns / kCount, first = own_block() * a.columns;
  Wide* const own = shared ? room + threadIdx.y * 2 * a.columns : nullptr;
  const ColumnSums<kCount, Wide> of_weight = {own, dweight + first, packs};
  const ColumnSums<kCount, Wide> of_bias = {own ? own + a.columns : nullptr, dbias + first, packs};
  begin_sums(of_weight);
  begin_sums(of_bias);
  for (Int row = begin; row < begin + rows_per_block && row < rows; ++row)
    layer_norm_backward_row(a, of_weight, of_bias, row);
  end_sums(of_weight);
  end_sums(of_bias);
}

// dweight, dbias: a row of sums of each block; shared: they fit the block's room meanwhile.
HONE_KERNEL layer_norm_backward(const Value* dy, const Value* extra, const Value* weight, const Value* sum,
                                const Wide* mean, const Wide* inv_std, Value* dx, Wide* dweight, Wide* dbias, Int rows,
                                Int columns, Int rows_per_block, int shared, int wide) {
  const LayerNormBackward all = {dy, extra, weight, sum, mean, inv_std, dx, columns};
  wide ? layer_norm_backward_rows<Widest<Value>::kCount>(all, dweight, dbias, rows, rows_per_block, shared)
       : layer_norm_backward_rows<1>(all, dweight, dbias, rows, rows_per_block, shared);
}
