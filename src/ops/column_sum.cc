// Sums of columns: their meaning, and the same over blocks of rows.
#include "ops/column_sum.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "ops/cpu/column_sum.h"
#include "ops/parallel.h"

namespace hone::ops {
namespace reference {

at::Tensor column_sum(const at::Tensor& x) {
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  return at::sum(rows, {0}, /*keepdim=*/false, at::toOpMathType(x.scalar_type())).to(x.scalar_type());
}

}  // namespace reference

at::Tensor join_sums(const at::Tensor& sums_BO, at::ScalarType type) {
  const std::int64_t blocks = sums_BO.size(0), cols = sums_BO.size(1);
  at::Tensor made = at::empty({cols}, sums_BO.options().dtype(type));
  cpu::with_type(type, [&]<class T>(T) {
    const auto* sums = sums_BO.const_data_ptr<cpu::Wide<T>>();
    T* to = made.mutable_data_ptr<T>();
    at::parallel_for(0, cols, grain(blocks), [&](std::int64_t begin, std::int64_t end) {
      cpu::column_sum_kernels<T>().join(sums + begin, blocks, cols, end - begin, to + begin);
    });
  });
  return made;
}

namespace {

// One row of sums for each block of rows. REQUIRES: kernels_take({x}), not empty
at::Tensor block_sums(const at::Tensor& x) {
  const at::Tensor rows = x.contiguous();
  const std::int64_t cols = rows.size(-1), count = rows.numel() / cols, blocks = row_blocks(count);
  at::Tensor sums = at::empty({blocks, cols}, rows.options().dtype(at::toOpMathType(rows.scalar_type())));
  cpu::with_type(rows.scalar_type(), [&]<class T>(T) {
    const T* from = rows.const_data_ptr<T>();
    auto* to = sums.mutable_data_ptr<cpu::Wide<T>>();
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        cpu::column_sum_kernels<T>().sum(from + b * kRowsPerSum * cols, std::min(kRowsPerSum, count - b * kRowsPerSum),
                                         cols, to + b * cols);
    });
  });
  return sums;
}

}  // namespace

at::Tensor column_sum(const at::Tensor& x) {
  if (x.numel() == 0 || !kernels_take({x})) return reference::column_sum(x);
  return join_sums(block_sums(x), x.scalar_type());
}

at::Tensor row_gradient(const at::Tensor& sums_BO, at::ScalarType type, GradientSum* sum) {
  if (!sum || !sum->takes()) return join_sums(sums_BO, type);
  const at::Tensor made = join_sums(sums_BO, sum->sum.scalar_type()).view(sum->sum.sizes());
  sum->started ? sum->sum.add_(made) : sum->sum.copy_(made);
  sum->started = true;
  return {};
}

at::Tensor bias_gradient(const at::Tensor& dy, GradientSum* sum) {
  if (dy.numel() == 0 || !kernels_take({dy})) return reference::column_sum(dy);
  return row_gradient(block_sums(dy), dy.scalar_type(), sum);
}

}  // namespace hone::ops
