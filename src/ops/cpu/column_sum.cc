// Sums of columns; compiled once per instruction set.
#include "ops/cpu/column_sum.h"

#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void sum_rows(const T* x, std::int64_t rows, std::int64_t cols, Wide<T>* sums) {
  using W = Wide<T>;
  std::int64_t r = 0;
  for (std::int64_t i = 0; i < cols; ++i) sums[i] = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * cols)  // four rows at once: the sums are read and written less
    each_vector<W>(cols, [&](std::int64_t i, auto part) {
      const Vec<W> four = (load(x + i, part) + load(x + cols + i, part)) +
                          (load(x + 2 * cols + i, part) + load(x + 3 * cols + i, part));
      store(sums + i, load(sums + i, part) + four, part);
    });
  for (; r < rows; ++r, x += cols)
    each_vector<W>(cols,
                   [&](std::int64_t i, auto part) { store(sums + i, load(sums + i, part) + load(x + i, part), part); });
}

template <class T>
void join_blocks(const Wide<T>* sums, std::int64_t blocks, std::int64_t stride, std::int64_t count, T* to) {
  each_vector<Wide<T>>(count, [&](std::int64_t i, auto part) {
    Vec<Wide<T>> sum = load(sums + i, part);
    for (std::int64_t b = 1; b < blocks; ++b) sum += load(sums + b * stride + i, part);
    store(to + i, sum, part);
  });
}

}  // namespace

template <class T>
ColumnSumKernels<T> column_sum_kernels() {
  return {sum_rows<T>, join_blocks<T>};
}
HONE_INSTANTIATE_KERNELS(ColumnSumKernels, column_sum_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
