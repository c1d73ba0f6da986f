// Work over all elements of all weights that lie in host memory in one parallel loop, cut into blocks that do not
// depend on the thread count.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hone/optimizer.h"

namespace hone::optim {

struct Block {
  std::size_t weight = 0;
  std::int64_t begin = 0, end = 0;
};

// Blocks of at most 16 k elements; weights without a gradient are left out, as torch.optim does.
std::vector<Block> blocks_of(std::span<const OptimizedWeight> weights);

// Calls work(index of the block, block) from several threads; each block exactly once.
void each_block(const std::vector<Block>& blocks, const std::function<void(std::size_t, const Block&)>& work);

// One pass over all weights: work(weight, block) updates a block of a master, which is rounded while it is in the
// cache. Where masters do not lie in host memory, elsewhere(weight) updates one and what it is rounded to.
void update_blocks(std::span<const OptimizedWeight> weights,
                   const std::function<void(const OptimizedWeight&, const Block&)>& work,
                   const std::function<void(const OptimizedWeight&)>& elsewhere);
void write_rounded(const OptimizedWeight& weight);  // all of it, where there is one, in ATen

// Of all gradients' elements, summed in fp64 in a fixed order: the same bits for any number of threads.
double sum_of_squares(std::span<const OptimizedWeight> weights);
// Its root, on the weights' device, for which nobody has waited yet. REQUIRES: there is a gradient.
Tensor norm_there(std::span<const OptimizedWeight> weights);

// Of what src/optim/elements defines.
#define HONE_ELEMENT [[gnu::always_inline]] inline

// std::sqrt is no inline function everywhere, and a call in a loop keeps it from being vectorised.
[[gnu::always_inline]] inline float square_root(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline double square_root(double x) { return __builtin_sqrt(x); }

}  // namespace hone::optim
