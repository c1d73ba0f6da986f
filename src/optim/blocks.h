// Work over all elements of all weights in one parallel loop, cut into blocks that do not depend on the thread count.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hone/optimizer.h"

namespace hone::optim {

struct Block {
  std::size_t weight = 0;
  std::int64_t begin = 0, end = 0;
};

// Blocks of at most 16 k elements; weights without a gradient are left out, as torch.optim does.
std::vector<Block> blocks_of(const std::vector<OptimizedWeight>& weights);

// Calls work(index of the block, block) from several threads; each block exactly once.
void each_block(const std::vector<Block>& blocks, const std::function<void(std::size_t, const Block&)>& work);

// One pass over all weights: work(weight, block) updates a block of a master, which is rounded while it is in the
// cache.
void update_blocks(const std::vector<OptimizedWeight>& weights,
                   const std::function<void(const OptimizedWeight&, const Block&)>& work);

// 2-norm of all gradients together, summed in fp64 in a fixed order: the same bits for any number of threads.
double gradient_norm(const std::vector<OptimizedWeight>& weights);

// std::sqrt is no inline function everywhere, and a call in a loop keeps it from being vectorised.
[[gnu::always_inline]] inline float square_root(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline double square_root(double x) { return __builtin_sqrt(x); }

}  // namespace hone::optim

// The function is compiled once per instruction set and chosen at load time. Its loops: `#pragma omp simd`.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define HONE_VECTORISED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define HONE_VECTORISED
#endif
