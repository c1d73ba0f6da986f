// Layer normalisation: its meaning, its gradient, the choice of kernel.
#include "ops/layer_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "ops/column_sum.h"
#include "ops/cpu/layer_norm.h"
#include "ops/kept_sum.h"
#include "ops/parallel.h"

namespace hone::ops {
namespace reference {

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  const auto type = at::toOpMathType(x.scalar_type());
  const at::Tensor wide = x.to(type), away = wide - wide.mean(-1, /*keepdim=*/true);
  const at::Tensor y = away * (away.square().mean(-1, /*keepdim=*/true) + eps).rsqrt() * weight.to(type);
  return (bias.defined() ? y + bias.to(type) : y).to(x.scalar_type());
}

AddNorm add_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps) {
  const at::Tensor sum = x + residual;
  return {sum, reference::layer_norm(sum, weight, bias, eps)};
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LayerNormed {
  at::Tensor sum, y, mean, inv_std;  // sum: x itself when there is no residual
};

template <class T>
const T* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<T>() : nullptr;
}

LayerNormed layer_norm_rows(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
  const sections::Timed section(sections::Section::elementwise);
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
                                            .y = made.y.mutable_data_ptr<T>() + at,
                                            .mean = made.mean.mutable_data_ptr<W>() + begin,
                                            .inv_std = made.inv_std.mutable_data_ptr<W>() + begin});
    });
  });
  return made;
}

// What the backward pass needs to know besides tensors.
void keep(AutogradContext* ctx, bool bias, const LayerNormSums& sums) {
  ctx->saved_data["bias"] = bias;
  ctx->saved_data["weight_sum"] = to_number(sums.weight);
  ctx->saved_data["bias_sum"] = to_number(sums.bias);
}

// {dx, dweight, dbias}: what the sums have taken is undefined.
variable_list layer_norm_rows_backward(const at::Tensor& dy, const at::Tensor& extra, AutogradContext* ctx) {
  const variable_list saved = ctx->get_saved_variables();
  const auto sum = [&](const char* name) { return to_sum(ctx->saved_data[name].toInt()); };
  const sections::Timed section(sections::Section::elementwise);
  const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inv_std = saved[3];
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
  const auto type = weight.scalar_type();
  return {dx, row_gradient(dweights, type, sum("weight_sum")),
          ctx->saved_data["bias"].toBool() ? row_gradient(dbiases, type, sum("bias_sum")) : at::Tensor()};
}

std::optional<at::Tensor> maybe(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, double eps, const LayerNormSums& sums) {
    LayerNormed made = layer_norm_rows(x, {}, weight, bias.value_or(at::Tensor()), eps);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.mean, made.inv_std});
    keep(ctx, bias.has_value(), sums);
    return made.y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list made = layer_norm_rows_backward(grads[0], {}, ctx);
    return {made[0], made[1], made[2], at::Tensor(), at::Tensor()};
  }
};

class AddLayerNormFunction : public torch::autograd::Function<AddLayerNormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& residual,
                               const at::Tensor& weight, const std::optional<at::Tensor>& bias, double eps,
                               const LayerNormSums& sums) {
    LayerNormed made = layer_norm_rows(x, residual, weight, bias.value_or(at::Tensor()), eps);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.mean, made.inv_std});
    keep(ctx, bias.has_value(), sums);
    ctx->set_materialize_grads(false);  // where nobody uses the sum, no zeros are made and added
    return {made.sum, made.y};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[1].defined()) return {grads[0], grads[0], at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
    const variable_list made = layer_norm_rows_backward(grads[1], grads[0], ctx);
    return {made[0], made[0], made[1], made[2], at::Tensor(), at::Tensor()};
  }
};

bool kernels_fit(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return x.numel() > 0 && kernels_take({x, weight}) && (!bias.defined() || kernels_take({x, bias}));
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      LayerNormSums sums) {
  if (!kernels_fit(x, weight, bias)) return reference::layer_norm(x, weight, bias, eps);
  return LayerNormFunction::apply(x, weight, maybe(bias), eps, sums);
}

AddNorm add_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps, LayerNormSums sums) {
  if (!residual.defined()) return {x, layer_norm(x, weight, bias, eps, sums)};
  if (!kernels_fit(x, weight, bias) || !kernels_take({x, residual}) || x.sizes() != residual.sizes())
    return reference::add_layer_norm(x, residual, weight, bias, eps);
  const variable_list made = AddLayerNormFunction::apply(x, residual, weight, maybe(bias), eps, sums);
  return {made[0], made[1]};
}

}  // namespace hone::ops
