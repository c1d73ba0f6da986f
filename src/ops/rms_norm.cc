// RMSNorm: its meaning, its gradient, the choice of kernel.
#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "ops/column_sum.h"
#include "ops/cpu/rms_norm.h"
#include "ops/kept_sum.h"
#include "ops/parallel.h"

namespace hone::ops {
namespace reference {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(at::toOpMathType(x.scalar_type()));  // bf16 and fp16 are summed in fp32
  const at::Tensor inv_rms = (wide.square().mean(-1, /*keepdim=*/true) + eps).rsqrt();
  return (wide * inv_rms).to(x.scalar_type()) * weight;
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  const at::Tensor sum = x + residual;
  return {sum, reference::rms_norm(sum, weight, eps)};
}

}  // namespace reference

RmsNormed rms_norm_forward(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  const sections::Timed section(sections::Section::elementwise);
  const at::Tensor rows = x.contiguous(), scales = weight.contiguous();
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
      kernels.forward(in + at, add ? add + at : nullptr, scales.const_data_ptr<T>(), static_cast<cpu::Wide<T>>(eps),
                      end - begin, cols, sum ? sum + at : nullptr, y + at, inv_rms + begin);
    });
  });
  return made;
}

// The gradient of the weight is summed over blocks of rows in a fixed order.
RmsNormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const at::Tensor& x,
                                   const at::Tensor& weight, const at::Tensor& inv_rms, GradientSum* gradient_sum) {
  const sections::Timed section(sections::Section::elementwise);
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
                         weight.const_data_ptr<T>(), inv_rms.const_data_ptr<cpu::Wide<T>>() + row, rows, cols,
                         dx.mutable_data_ptr<T>() + at, sums.mutable_data_ptr<cpu::Wide<T>>() + b * cols);
      }
    });
  });
  return {dx, row_gradient(sums, weight.scalar_type(), gradient_sum)};
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, double eps,
                            std::int64_t sum) {
    const RmsNormed made = rms_norm_forward(x, {}, weight, eps);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.inv_rms});
    ctx->saved_data["sum"] = sum;
    return made.normed;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const RmsNormGradients made = rms_norm_backward(grads[0], {}, saved[0], saved[1], saved[2],
                                                    to_sum(ctx->saved_data["sum"].toInt()));
    return {made.x, made.weight, at::Tensor(), at::Tensor()};
  }
};

class AddRmsNormFunction : public torch::autograd::Function<AddRmsNormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& residual,
                               const at::Tensor& weight, double eps, std::int64_t gradient_sum) {
    const RmsNormed made = rms_norm_forward(x, residual, weight, eps);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.inv_rms});
    ctx->saved_data["sum"] = gradient_sum;
    ctx->set_materialize_grads(false);  // where nobody uses the sum, no zeros are made and added
    return {made.sum, made.normed};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    if (!grads[1].defined()) return {grads[0], grads[0], at::Tensor(), at::Tensor(), at::Tensor()};
    const RmsNormGradients made = rms_norm_backward(grads[1], grads[0], saved[0], saved[1], saved[2],
                                                    to_sum(ctx->saved_data["sum"].toInt()));
    return {made.x, made.x, made.weight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, GradientSum* gradient_sum) {
  if (x.numel() == 0 || !kernels_take({x, weight})) return reference::rms_norm(x, weight, eps);
  if (!at::GradMode::is_enabled()) return rms_norm_forward(x, {}, weight, eps).normed;
  return RmsNormFunction::apply(x, weight, eps, to_number(gradient_sum));
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps,
                     GradientSum* gradient_sum) {
  if (!residual.defined()) return {x, rms_norm(x, weight, eps, gradient_sum)};
  if (x.numel() == 0 || !kernels_take({x, residual, weight}) || x.sizes() != residual.sizes())
    return reference::add_rms_norm(x, residual, weight, eps);
  if (!at::GradMode::is_enabled()) {
    const RmsNormed made = rms_norm_forward(x, residual, weight, eps);
    return {made.sum, made.normed};
  }
  const variable_list made =
      AddRmsNormFunction::apply(x, residual, weight, eps, to_number(gradient_sum));
  return {made[0], made[1]};
}

}  // namespace hone::ops
