// Sums of columns over blocks of rows, and whether all values are finite.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

// A thread per column of a block of rows: sums[block] = the sum of its rows.
HONE_KERNEL columns(const Value* x, Wide* sums, Int rows, Int columns, Int rows_per_block) {
  const Int column = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x, block = blockIdx.y;
  if (column >= columns) return;
  Int end = (block + 1) * rows_per_block;
  if (end > rows) end = rows;
  Wide total = 0;
  for (Int row = block * rows_per_block; row < end; ++row) total += widened(x[row * columns + column]);
  sums[block * columns + column] = total;
}

template <int kCount>
HONE_DEVICE bool are_finite(const Value* x, Int count) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  bool finite = true;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / kCount; i += step) {
    const Pack<Value, kCount> pack = load<kCount>(x, i);
    for (int k = 0; k < kCount; ++k) finite = finite && widened(pack.at[k]) - widened(pack.at[k]) == 0;
  }
  return finite;
}

// found becomes 1 where a value is infinite or not a number; whoever finds one writes the same.
HONE_KERNEL find_not_finite(const Value* x, Int count, int* found, int wide) {
  const bool finite = wide ? are_finite<Widest<Value>::kCount>(x, count) : are_finite<1>(x, count);
  if (!finite) *found = 1;
}
