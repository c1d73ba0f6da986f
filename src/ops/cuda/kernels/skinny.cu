// Products of few rows with weights, a launch for each (skinny.h).
#ifndef HONE_EMULATED
#include "ops/cuda/kernels/skinny.h"
#endif

constexpr int kSkinnyThreads = 128;
constexpr int kSteps = 3;  // that are on their way or there

// The products of one launch. The first weights, which nothing has changed since long, are on their way before x is
// there.
template <int kCount, int kRows, class Groups>
HONE_DEVICE void multiply_rows_of(const FewRows& given, const FewNorm& norm, const Groups& groups) {
  const WarpShare share =
      share_of(static_cast<int>(given.in) / kCount, given.split, static_cast<int>(blockIdx.x), groups.count());
  Value* const room = room_of_rows<kSteps>();
  if (norm.weight) ask_for_norm<kCount>(given, norm, room);
  commit_copies();
  Asking<kCount, kRows, kSteps, Groups> asking = {given, groups, share, share.first, share.begin};
  asking.find();
  for (int step = 0; step < kSteps - 1; ++step) asking.ask();
  wait_for_before();
  FewRows few = given;
  if (norm.weight) few.x = normed_rows<kCount, kSteps - 1>(given, norm, room);
  int step = 0;
  multiply_groups<kCount, kRows, kSteps>(few, groups, share, step, asking);
}

// How many rows, and how many values a thread reads at once: one row in whole accesses has kernels of its own, since
// all of a kernel's threads get as many registers as its most.
enum { kOneRow, kMoreRows };
template <int kRows, class Run>
HONE_DEVICE void by_rows(int rows, int wide, Run&& run) {
  constexpr int kWide = Widest<Value>::kCount;
  if constexpr (kRows == kOneRow)
    run.template operator()<kWide, 1>();
  else if (!wide)
    run.template operator()<1, 8>();
  else if (rows <= 4)
    run.template operator()<kWide, 4>();
  else
    run.template operator()<kWide, 8>();
}

struct RunProducts {
  const FewRows& few;
  const FewNorm& norm;
  const FewWeights& all;
  template <int kCount, int kRows>
  HONE_ELEMENT void operator()() const {
    multiply_rows_of<kCount, kRows>(few, norm, ProductGroups<kRows>{all});
  }
};
// The products of x [rows, in], 1 to 8 rows, or of its norm.
#define HONE_PRODUCTS(name, which)                                                                                    \
  HONE_KERNEL_OF(kSkinnyThreads)                                                                                      \
  name(const Value* x, HONE_LIST(const Value*, kMostWeights) weights, HONE_LIST(const Value*, kMostWeights) biases,   \
       HONE_LIST(Value*, kMostWeights) to, HONE_LIST(Int, kMostWeights) outs, Int in, int rows, int split,            \
       const Value* residual, const Value* norm, Value* sum, double eps, int wide) {                                  \
    let_next_begin();                                                                                                 \
    const FewRows few = {x, in, rows, split};                                                                         \
    const FewNorm by = {x, residual, norm, sum, static_cast<Wide>(eps)};                                              \
    by_rows<which>(rows, wide, RunProducts{few, by, FewWeights{weights, biases, to, outs}});                          \
  }
HONE_PRODUCTS(products_of_row, kOneRow)
HONE_PRODUCTS(products, kMoreRows)

struct RunGated {
  const FewRows& few;
  const FewNorm& norm;
  Weights gate, up;
  Value* y;
  int activation;
  template <int kCount, int kRows>
  HONE_ELEMENT void operator()() const {
    multiply_rows_of<kCount, kRows>(few, norm, GatedGroups<kRows>{gate, up, y, activation});
  }
};
#define HONE_GATED_PRODUCTS(name, which)                                                                              \
  HONE_KERNEL_OF(kSkinnyThreads)                                                                                      \
  name(const Value* x, const Value* gate, const Value* gate_bias, const Value* up, const Value* up_bias, Value* y,    \
       Int outs, Int in, int rows, int activation, const Value* residual, const Value* norm, Value* sum, double eps,  \
       int wide) {                                                                                                    \
    let_next_begin();                                                                                                 \
    const FewRows few = {x, in, rows, 1};                                                                             \
    const FewNorm by = {x, residual, norm, sum, static_cast<Wide>(eps)};                                              \
    by_rows<which>(rows, wide, RunGated{few, by, {gate, gate_bias, outs}, {up, up_bias, outs}, y, activation});       \
  }
HONE_GATED_PRODUCTS(gated_products_of_row, kOneRow)
HONE_GATED_PRODUCTS(gated_products, kMoreRows)
