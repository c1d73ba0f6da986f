// The CPU's sums: over columns, into a table, of losses; and whether values are finite.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <atomic>

#include "ops/column_sum.h"
#include "ops/cpu/column_sum.h"
#include "ops/cpu/cross_entropy.h"
#include "ops/cpu/finite.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {
namespace {

// One row of sums for each block of rows.
at::Tensor columns(const at::Tensor& x) {
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

void join(const at::Tensor& sums_BO, const Target& target) {
  const std::int64_t blocks = sums_BO.size(0), cols = sums_BO.size(1);
  const at::Tensor made = target.add ? at::empty_like(target.out) : target.out;
  cpu::with_type(made.scalar_type(), [&]<class T>(T) {
    const auto* sums = sums_BO.const_data_ptr<cpu::Wide<T>>();
    T* to = made.mutable_data_ptr<T>();
    at::parallel_for(0, cols, grain(blocks), [&](std::int64_t begin, std::int64_t end) {
      cpu::column_sum_kernels<T>().join(sums + begin, blocks, cols, end - begin, to + begin);
    });
  });
  if (target.add) target.out.add_(made);
}

// Summed in fp32 at least, in the order of the tokens. Threads own column blocks, so the order never depends on them.
template <class T, class W>
void add_rows(const at::Tensor& dy, const at::Tensor& ids, std::int64_t skip, W* sum, std::int64_t width) {
  const T* gradient = dy.const_data_ptr<T>();
  const std::int64_t* id = ids.const_data_ptr<std::int64_t>();
  const std::int64_t count = ids.numel();
  at::parallel_for(0, width, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < count; ++n) {
      if (id[n] == skip) continue;
      W* to = sum + id[n] * width;
      const T* from = gradient + n * width;
      for (std::int64_t i = begin; i < end; ++i) to[i] += static_cast<W>(from[i]);
    }
  });
}

void add_to_table(const at::Tensor& gradient, const at::Tensor& ids, std::int64_t skip, const at::Tensor& sum) {
  const at::Tensor dy = gradient.contiguous(), flat = ids.contiguous();
  const std::int64_t width = dy.size(-1);
  switch (dy.scalar_type()) {
    case at::kFloat:
      add_rows<float>(dy, flat, skip, sum.mutable_data_ptr<float>(), width);
      break;
    case at::kDouble:
      add_rows<double>(dy, flat, skip, sum.mutable_data_ptr<double>(), width);
      break;
    default:
      add_rows<c10::BFloat16>(dy, flat, skip, sum.mutable_data_ptr<float>(), width);
      break;
  }
}

void loss(at::Tensor& logits_CV, const LossTargets& targets, bool gradient, const CrossEntropyOptions& options,
          at::Tensor& losses_C, at::Tensor& statistics_C4) {
  const std::int64_t rows = logits_CV.size(0), vocab = logits_CV.size(1);
  cpu::with_type(logits_CV.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const auto kernels = cpu::cross_entropy_kernels<T>();
    at::parallel_for(0, rows, grain(vocab), [&](std::int64_t first, std::int64_t last) {
      kernels.run({.logits = logits_CV.mutable_data_ptr<T>() + first * vocab,
                   .labels = targets.labels_C.const_data_ptr<std::int64_t>() + first,
                   .weight = targets.weight_C.const_data_ptr<W>() + first,
                   .rows = last - first,
                   .vocab = vocab,
                   .smoothing = static_cast<W>(options.label_smoothing),
                   .z_loss = static_cast<W>(options.z_loss),
                   .by_probability = options.by_probability,
                   .gradient = gradient,
                   .losses = losses_C.mutable_data_ptr<W>() + first,
                   .statistics = statistics_C4.defined() ? statistics_C4.mutable_data_ptr<W>() + 4 * first : nullptr});
    });
  });
}

bool all_finite(const at::Tensor& x) {
  if (!x.is_contiguous()) return reference_backend().sums.all_finite(x);
  std::atomic<bool> finite = true;
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    const T* values = x.const_data_ptr<T>();
    at::parallel_for(0, x.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      if (!cpu::finite_kernels<T>().all_finite(values + begin, end - begin)) finite = false;
    });
  });
  return finite;
}

}  // namespace

Backend::Sums sums() { return {columns,    join, add_to_table, loss, all_finite, reference_backend().sums.likeliest,
          reference_backend().sums.chunk_bytes}; }

}  // namespace hone::ops::cpu_table
