// The gradient of an embedding: rows of dy added to those of a table that their ids name.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

// sorted: the tokens' ids in order; tokens: which token each is of, equal ids in the order of their tokens. The block
// where a run of equal ids begins adds all of the run, each thread a column, so that no two write to one place and
// tokens are added in their order.
HONE_KERNEL add_to_table(const Value* dy, const Int* sorted, const Int* tokens, Wide* sum, Int count, Int columns,
                         Int skip) {
  const Int first = blockIdx.x, id = sorted[first];
  if (id == skip || (first > 0 && sorted[first - 1] == id)) return;
  const Int column = static_cast<Int>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  Wide total = sum[id * columns + column];
  for (Int i = first; i < count && sorted[i] == id; ++i) total += widened(dy[tokens[i] * columns + column]);
  sum[id * columns + column] = total;
}
