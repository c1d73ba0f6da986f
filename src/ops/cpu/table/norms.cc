// The CPU's norms. Gradients of weights are summed over blocks of rows in a fixed order.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "ops/column_sum.h"
#include "ops/cpu/head_norm.h"
#include "ops/cpu/layer_norm.h"
#include "ops/cpu/rms_norm.h"
#include "ops/cpu/table/table.h"
#include "ops/kernels.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {
namespace {

RmsNormed rms_norm(const at::Tensor& given, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form) {
  const at::Tensor rows = given.contiguous(), scales = weight.contiguous();
  const at::Tensor other = residual.defined() ? residual.contiguous() : residual;
  const std::int64_t cols = rows.size(-1), count = rows.numel() / cols;
  RmsNormed made{residual.defined() ? at::empty_like(rows) : rows, at::empty_like(rows), {}};
  made.inv_rms = at::empty({count}, rows.options().dtype(at::toOpMathType(rows.scalar_type())));
  cpu::with_type(rows.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::rms_norm_kernels<T>();
    const T *in = rows.const_data_ptr<T>(), *add = other.defined() ? other.const_data_ptr<T>() : nullptr;
    T *sum = add ? made.sum.mutable_data_ptr<T>() : nullptr, *y = made.normed.mutable_data_ptr<T>();
    auto* inv_rms = made.inv_rms.mutable_data_ptr<cpu::Wide<T>>();
    at::parallel_for(0, count, grain(cols), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * cols;
      kernels.forward(in + at, add ? add + at : nullptr, {scales.const_data_ptr<T>(), form.factor},
                      static_cast<cpu::Wide<T>>(form.eps), end - begin, cols, sum ? sum + at : nullptr, y + at,
                      inv_rms + begin);
    });
  });
  return made;
}

NormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& weight,
                                const RmsNormed& saved, RmsNormForm form) {
  const at::Tensor &x = saved.sum, &inv_rms = saved.inv_rms;
  const at::Tensor gradient = dy.contiguous(), direct = extra.defined() ? extra.contiguous() : extra;
  const std::int64_t cols = x.size(-1), count = x.numel() / cols;
  const std::int64_t blocks = row_blocks(count);
  const at::Tensor sums = at::empty({blocks, cols}, inv_rms.options());
  at::Tensor dx = at::empty_like(x);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    const auto kernels = cpu::rms_norm_kernels<T>();
    const T* add = direct.defined() ? direct.const_data_ptr<T>() : nullptr;
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t row = b * kRowsPerSum, rows = std::min(kRowsPerSum, count - row), at = row * cols;
        kernels.backward(gradient.const_data_ptr<T>() + at, add ? add + at : nullptr, x.const_data_ptr<T>() + at,
                         {weight.const_data_ptr<T>(), form.factor}, inv_rms.const_data_ptr<cpu::Wide<T>>() + row, rows,
                         cols, dx.mutable_data_ptr<T>() + at, sums.mutable_data_ptr<cpu::Wide<T>>() + b * cols);
      }
    });
  });
  return {dx, sums, {}};
}

template <class T>
const T* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<T>() : nullptr;
}

LayerNormed layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps) {
  const at::Tensor rows = x.contiguous(), scales = weight.contiguous();
  const at::Tensor other = residual.defined() ? residual.contiguous() : residual,
                   shifts = bias.defined() ? bias.contiguous() : bias;
  const std::int64_t cols = rows.size(-1), count = rows.numel() / cols;
  const auto wide = rows.options().dtype(at::toOpMathType(rows.scalar_type()));
  LayerNormed made{residual.defined() ? at::empty_like(rows) : rows, at::empty_like(rows), at::empty({count}, wide),
                   at::empty({count}, wide)};
  cpu::with_type(rows.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const T* add = data_or_null<T>(other);
    T* sum = add ? made.sum.mutable_data_ptr<T>() : nullptr;
    at::parallel_for(0, count, grain(cols), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * cols;
      cpu::layer_norm_kernels<T>().forward({.x = rows.const_data_ptr<T>() + at,
                                            .residual = add ? add + at : nullptr,
                                            .weight = scales.const_data_ptr<T>(),
                                            .bias = data_or_null<T>(shifts),
                                            .eps = static_cast<W>(eps),
                                            .rows = end - begin,
                                            .cols = cols,
                                            .sum = sum ? sum + at : nullptr,
                                            .y = made.normed.mutable_data_ptr<T>() + at,
                                            .mean = made.mean.mutable_data_ptr<W>() + begin,
                                            .inv_std = made.inv_std.mutable_data_ptr<W>() + begin});
    });
  });
  return made;
}

NormGradients layer_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& weight,
                                  const LayerNormed& saved) {
  const at::Tensor &x = saved.sum, &mean = saved.mean, &inv_std = saved.inv_std;
  const at::Tensor gradient = dy.contiguous(), direct = extra.defined() ? extra.contiguous() : extra;
  const std::int64_t cols = x.size(-1), count = x.numel() / cols, blocks = row_blocks(count);
  const at::Tensor dweights = at::empty({blocks, cols}, mean.options()), dbiases = at::empty_like(dweights);
  at::Tensor dx = at::empty_like(x);
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    const T* add = data_or_null<T>(direct);
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t row = b * kRowsPerSum, at = row * cols;
        cpu::layer_norm_kernels<T>().backward({.dy = gradient.const_data_ptr<T>() + at,
                                               .extra = add ? add + at : nullptr,
                                               .x = x.const_data_ptr<T>() + at,
                                               .weight = weight.const_data_ptr<T>(),
                                               .mean = mean.const_data_ptr<W>() + row,
                                               .inv_std = inv_std.const_data_ptr<W>() + row,
                                               .rows = std::min(kRowsPerSum, count - row),
                                               .cols = cols,
                                               .dx = dx.mutable_data_ptr<T>() + at,
                                               .dweight = dweights.mutable_data_ptr<W>() + b * cols,
                                               .dbias = dbiases.mutable_data_ptr<W>() + b * cols});
      }
    });
  });
  return {dx, dweights, dbiases};
}

HeadNormed head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps) {
  const std::int64_t tokens = x_NHK.size(0), heads = x_NHK.size(1), size = x_NHK.size(2);
  const auto wide = x_NHK.options().dtype(at::toOpMathType(x_NHK.scalar_type()));
  const at::Tensor x = x_NHK.contiguous(), gates = gate.contiguous(), scales = weight.contiguous();
  HeadNormed made{at::empty_like(gates), at::empty({tokens, heads}, wide), at::empty({tokens, heads}, wide)};
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    at::parallel_for(0, tokens, grain(heads * size), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * heads * size;
      cpu::head_norm_kernels<T>().forward({.x = x.const_data_ptr<T>() + at,
                                           .gate = gates.const_data_ptr<T>() + at,
                                           .weight = scales.const_data_ptr<T>(),
                                           .eps = static_cast<W>(eps),
                                           .tokens = end - begin,
                                           .heads = heads,
                                           .size = size,
                                           .y = made.y.mutable_data_ptr<T>() + at,
                                           .mean = made.mean_NH.mutable_data_ptr<W>() + begin * heads,
                                           .inv_std = made.inv_std_NH.mutable_data_ptr<W>() + begin * heads});
    });
  });
  return made;
}

HeadNormGradients head_norm_backward(const at::Tensor& dy, const HeadNormSaved& saved) {
  const std::int64_t tokens = saved.x_NHK.size(0), heads = saved.x_NHK.size(1), size = saved.x_NHK.size(2);
  const std::int64_t blocks = row_blocks(tokens);
  HeadNormGradients made{at::empty_like(saved.x_NHK), at::empty_like(saved.gate),
                         at::empty({blocks, heads * size}, saved.mean_NH.options())};
  cpu::with_type(dy.scalar_type(), [&]<class T>(T) {
    using W = cpu::Wide<T>;
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t token = b * kRowsPerSum, at = token * heads * size;
        cpu::head_norm_kernels<T>().backward({.dy = dy.const_data_ptr<T>() + at,
                                              .x = saved.x_NHK.const_data_ptr<T>() + at,
                                              .gate = saved.gate.const_data_ptr<T>() + at,
                                              .weight = saved.weight.const_data_ptr<T>(),
                                              .mean = saved.mean_NH.const_data_ptr<W>() + token * heads,
                                              .inv_std = saved.inv_std_NH.const_data_ptr<W>() + token * heads,
                                              .tokens = std::min(kRowsPerSum, tokens - token),
                                              .heads = heads,
                                              .size = size,
                                              .dx = made.x_NHK.mutable_data_ptr<T>() + at,
                                              .dgate = made.gate.mutable_data_ptr<T>() + at,
                                              .dweight = made.weight_BO.mutable_data_ptr<W>() + b * heads * size});
      }
    });
  });
  return made;
}

}  // namespace

Backend::Norms norms() {
  return {rms_norm, rms_norm_backward, layer_norm, layer_norm_backward, head_norm, head_norm_backward};
}

}  // namespace hone::ops::cpu_table
