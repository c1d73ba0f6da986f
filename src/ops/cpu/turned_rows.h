// Kernel of products of few rows with a weight that lies the other way round, [in, outs], as stacked experts have it:
// it is read in the order in which it lies.
#pragma once

#include "ops/cpu/products/skinny.h"

namespace hone::ops::cpu {

template <class T>
struct TurnedRowKernels {
  // REQUIRES: at most 16 rows, product.turned. Each output is one sum in a fixed order, as SkinnyKernels'.
  void (*multiply)(const SkinnyProduct<T>& product);
};
HONE_KERNELS(TurnedRowKernels, turned_row_kernels)

}  // namespace hone::ops::cpu
