// Dropout of a row in one pass; compiled once per instruction set.
#include "ops/cpu/dropout.h"

#include "ops/cpu/dropout-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
void drop_row(double rate, std::uint32_t row_word, const std::uint32_t* column_words, const T* x, std::int64_t count,
              T* y) {
  using W = Wide<T>;
  const LaneDropout<W> dropout(rate, column_words, &row_word);
  each_vector<W>(count, [&](std::int64_t i, auto part) {
    store(y + i, dropout.kept(load(x + i, part), 0, i) * dropout.factor(), part);
  });
}

}  // namespace

template <class T>
DropoutKernels<T> dropout_kernels() {
  return {drop_row<T>};
}
HONE_INSTANTIATE_KERNELS(DropoutKernels, dropout_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
