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

// made (+)= the sum of the rows of sums: a thread for each of 32 columns and a share of the rows, of which several are
// on their way at once; then all shares, one after another.
HONE_KERNEL join_rows(const Wide* sums, Value* made, Int rows, Int columns, int add) {
  constexpr int kAtOnce = 8;
  __shared__ Wide shares[kMostWarps][kWarp];
  let_next_begin();
  wait_for_before();
  const Int column = static_cast<Int>(blockIdx.x) * kWarp + threadIdx.x;
  const int share = threadIdx.y, count = blockDim.y;
  Wide total = 0;
  for (Int begin = share; begin < rows; begin += kAtOnce * count) {
    Wide here[kAtOnce] = {};
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i)
      if (column < columns && begin + i * count < rows) here[i] = sums[(begin + i * count) * columns + column];
    HONE_UNROLL for (int i = 0; i < kAtOnce; ++i) total += here[i];
  }
  shares[share][threadIdx.x] = total;
  __syncthreads();
  if (share > 0 || column >= columns) return;
  for (int i = 1; i < count; ++i) total += shares[i][threadIdx.x];
  made[column] = rounded<Value>(add ? widened(made[column]) + total : total);
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

// A largest value, and where it is first; place -1: one is infinite or not a number.
struct Found {
  Wide value;
  Int place;
};
template <int kCount>
HONE_DEVICE Found own_likeliest(const Value* row, Int begin, Int end) {  // packs
  Found found = {-infinity(Wide()), begin * kCount};
  bool finite = true;
  for (Int i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const Pack<Value, kCount> pack = load<kCount>(row, i);
    HONE_UNROLL for (int k = 0; k < kCount; ++k) {
      const Wide x = widened(pack.at[k]);
      finite = finite && x - x == 0;
      if (x > found.value) found = {x, i * kCount + k};
    }
  }
  if (!finite) found.place = -1;
  return found;
}
// Of all threads, for all of them. Every thread of the block comes here.
HONE_DEVICE Found joined_likeliest(Found own) {
  const Wide spoiled = over_block(Larger{}, static_cast<Wide>(own.place < 0 ? 1 : 0));
  const Wide largest = over_block(Larger{}, own.value);
  const Int none = -0x7fffffffffffffffll, place = over_block(Larger{}, own.value == largest ? -own.place : none);
  return {largest, spoiled > 0 ? -1 : -place};
}

// Of a row (y), for a part of its values (x).
HONE_KERNEL likeliest_parts(const Value* logits, Wide* values, Int* places, Int columns, int wide) {
  let_next_begin();
  wait_for_before();
  constexpr int kWide = Widest<Value>::kCount;
  const Value* row = logits + static_cast<Int>(blockIdx.y) * columns;
  const Int packs = columns / (wide ? kWide : 1), begin = packs * blockIdx.x / gridDim.x,
            end = packs * (blockIdx.x + 1) / gridDim.x;
  const Found found =
      joined_likeliest(wide ? own_likeliest<kWide>(row, begin, end) : own_likeliest<1>(row, begin, end));
  if (threadIdx.x > 0) return;
  values[blockIdx.y * gridDim.x + blockIdx.x] = found.value;
  places[blockIdx.y * gridDim.x + blockIdx.x] = found.place;
}
// made[row] = the place of its largest value, of equal ones the first; -1 where one is infinite or not a number. Of a
// row's parts, a thread for each. ids, held: the rows' next step (NextStep of ops/primitives.h), or null.
constexpr int kMostCounts = 4;
HONE_KERNEL likeliest(const Value*, const Wide* values, const Int* places, Int* made, Int* ids,
                      HONE_LIST(Int*, kMostCounts) held, int parts) {
  let_next_begin();
  wait_for_before();
  Found own = {-infinity(Wide()), 0x7fffffffffffffffll};
  if (static_cast<int>(threadIdx.x) < parts) {
    const Int at = static_cast<Int>(blockIdx.x) * parts + threadIdx.x;
    own = {values[at], places[at]};
  }
  const Found found = joined_likeliest(own);
  if (threadIdx.x > 0) return;
  made[blockIdx.x] = found.place;
  if (ids) ids[blockIdx.x] = found.place < 0 ? 0 : found.place;
  HONE_UNROLL for (int i = 0; i < kMostCounts; ++i)
    if (held.at[i]) ++held.at[i][blockIdx.x];
}

// found becomes 1 where a value is infinite or not a number; whoever finds one writes the same.
HONE_KERNEL find_not_finite(const Value* x, Int count, int* found, int wide) {
  const bool finite = wide ? are_finite<Widest<Value>::kCount>(x, count) : are_finite<1>(x, count);
  if (!finite) *found = 1;
}
