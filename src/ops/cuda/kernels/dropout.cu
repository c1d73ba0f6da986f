// Dropout by words of rows and columns, as src/ops/dropout_words.h says it: one block per row.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

HONE_DEVICE bool keeps(unsigned row_word, unsigned column_word, int threshold) {
  unsigned x = row_word ^ column_word;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return static_cast<int>((x ^ x >> 16) >> 1) >= threshold;
}

template <int kCount>
HONE_DEVICE void dropout_row(const Value* x, Value* y, unsigned row_word, const unsigned* column_words, Int columns,
                             int threshold, Wide factor) {
  for (Int i = threadIdx.x; i < columns / kCount; i += blockDim.x) {
    Pack<Value, kCount> pack = load<kCount>(x, i);
    for (int k = 0; k < kCount; ++k) {
      const Wide share = keeps(row_word, column_words[i * kCount + k], threshold) ? factor : 0;
      pack.at[k] = rounded<Value>(widened(pack.at[k]) * share);  // not a number stays so, dropped or not
    }
    store<kCount>(y, i, pack);
  }
}

// words: those of the rows, then those of the columns.
HONE_KERNEL dropout(const Value* x, Value* y, const unsigned* words, Int rows, Int columns, int threshold,
                    double factor, int wide) {
  const Int row = blockIdx.x, first = row * columns;
  wide ? dropout_row<Widest<Value>::kCount>(x + first, y + first, words[row], words + rows, columns, threshold, factor)
       : dropout_row<1>(x + first, y + first, words[row], words + rows, columns, threshold, factor);
}
