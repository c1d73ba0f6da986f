// Work over all elements of all weights in one parallel loop.
#include "optim/blocks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>

#include "ops/backend.h"
#include "ops/vectorised.h"
#include "tensor/host.h"

namespace hone::optim {
namespace {

constexpr std::int64_t kBlock = 16384;

[[gnu::always_inline]] inline double squares_loop(const float* x, std::int64_t size) {
  double lanes[16] = {};  // sixteen sums, so that the order of additions is the same on every instruction set
  std::int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
#pragma omp simd
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += double(x[i + lane]) * double(x[i + lane]);
  }
  double sum = 0;
  for (; i < size; ++i) sum += double(x[i]) * double(x[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

// To bf16: to the nearest, ties to even; not a number stays that.
[[gnu::always_inline]] inline void rounding_loop(const float* x, std::int64_t size, std::uint16_t* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    to[i] = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : nearest);
  }
}

[[gnu::always_inline]] inline void half_loop(const float* x, std::int64_t size, c10::Half* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) to[i] = c10::Half(x[i]);
}

double sum_of_squares(const float* x, std::int64_t size) {
  return ops::vectorised([=] { return squares_loop(x, size); });
}
double sum_of_squares(const double* x, std::int64_t size) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace

std::vector<Block> blocks_of(std::span<const OptimizedWeight> weights) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].gradient.defined()) continue;
    const std::int64_t size = weights[i].master.numel();
    for (std::int64_t begin = 0; begin < size; begin += kBlock)
      blocks.push_back({i, begin, std::min(begin + kBlock, size)});
  }
  return blocks;
}

void each_block(const std::vector<Block>& blocks, const std::function<void(std::size_t, const Block&)>& work) {
  at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) work(static_cast<std::size_t>(i), blocks[static_cast<std::size_t>(i)]);
  });
}

namespace {

// On the meta device there is nothing to compute with.
bool is_dry(std::span<const OptimizedWeight> weights) { return !weights.empty() && weights[0].master.is_meta(); }

bool on_host(std::span<const OptimizedWeight> weights) {
  return weights.empty() || ops::backend_of(weights[0].master).on_host;
}

std::vector<Tensor> gradients_of(std::span<const OptimizedWeight> weights) {
  std::vector<Tensor> gradients;
  for (const OptimizedWeight& weight : weights)
    if (weight.gradient.defined()) gradients.push_back(weight.gradient);
  return gradients;
}

}  // namespace

void write_rounded(const OptimizedWeight& weight) {
  if (weight.rounded.defined()) weight.rounded.copy_(weight.master);
}

// One pass over the gradients, by few kernels for all of them.
Tensor norm_there(std::span<const OptimizedWeight> weights) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients_of(weights), 2, at::kDouble)));
}

void update_blocks(std::span<const OptimizedWeight> weights,
                   const std::function<void(const OptimizedWeight&, const Block&)>& work,
                   const std::function<void(const OptimizedWeight&)>& elsewhere) {
  if (is_dry(weights)) return;
  if (!on_host(weights)) {
    for (const OptimizedWeight& weight : weights)
      if (weight.gradient.defined()) elsewhere(weight);
    return;
  }
  each_block(blocks_of(weights), [&](std::size_t, const Block& block) {
    const OptimizedWeight& weight = weights[block.weight];
    work(weight, block);
    if (!weight.rounded.defined()) return;
    const float* from = weight.master.const_data_ptr<float>() + block.begin;
    const std::int64_t size = block.end - block.begin;
    if (weight.rounded.scalar_type() == at::kHalf) {
      at::Half* to = weight.rounded.mutable_data_ptr<at::Half>() + block.begin;
      return ops::vectorised([&] { half_loop(from, size, to); });
    }
    auto* to = static_cast<std::uint16_t*>(weight.rounded.mutable_data_ptr()) + block.begin;
    ops::vectorised([&] { rounding_loop(from, size, to); });
  });
}

double sum_of_squares(std::span<const OptimizedWeight> weights) {
  if (is_dry(weights)) return 0;
  if (!on_host(weights)) {
    const double norm = gradients_of(weights).empty() ? 0 : host::number(norm_there(weights));
    return norm * norm;
  }
  const std::vector<Block> blocks = blocks_of(weights);
  std::vector<double> sums(blocks.size());
  each_block(blocks, [&](std::size_t index, const Block& block) {
    const Tensor& gradient = weights[block.weight].gradient;
    sums[index] = gradient.scalar_type() == at::kDouble
                      ? sum_of_squares(gradient.const_data_ptr<double>() + block.begin, block.end - block.begin)
                      : sum_of_squares(gradient.const_data_ptr<float>() + block.begin, block.end - block.begin);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace hone::optim
