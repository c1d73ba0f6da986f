// RMSNorm: its meaning, its gradient.
#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "ops/backend.h"
#include "ops/column_sum.h"
#include "ops/kept_sum.h"
#include "ops/passes.h"
#include "ops/row_weight.h"

namespace hone::ops {
namespace reference {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, RmsNormForm form) {
  const at::Tensor wide = x.to(at::toOpMathType(x.scalar_type()));  // bf16 and fp16 are summed in fp32
  const at::Tensor inv_rms = (wide.square().mean(-1, /*keepdim=*/true) + form.eps).rsqrt();
  const at::Tensor y = wide * inv_rms;
  if (form.factor == RmsFactor::weight) return y.to(x.scalar_type()) * weight;
  const at::Tensor factor = weight.to(wide.scalar_type());
  return (y * (form.factor == RmsFactor::wide_weight ? factor : 1 + factor)).to(x.scalar_type());
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form) {
  const at::Tensor sum = x + residual;
  return {sum, reference::rms_norm(sum, weight, form)};
}

}  // namespace reference

RmsNormed rms_norm_forward(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                           RmsNormForm form) {
  const sections::Timed section(sections::Section::elementwise);
  count_bytes({x, residual, residual, x});
  return backend_of(x).norms.rms_norm(x, residual, weight, form);
}

RmsNormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const RmsNormed& saved,
                                   const at::Tensor& weight, RmsNormForm form, GradientSum* gradient_sum) {
  const sections::Timed section(sections::Section::elementwise);
  const NormGradients made = backend_of(saved.sum).norms.rms_norm_backward(dy, extra, weight, saved, form);
  count_bytes({dy, extra, saved.sum, made.x});
  return {made.x, row_gradient(made.weight_BO, weight.scalar_type(), gradient_sum)};
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass needs of it.
RmsNormForm form_of(AutogradContext* ctx) { return {0, static_cast<RmsFactor>(ctx->saved_data["factor"].toInt())}; }

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, RmsNormForm form,
                            std::int64_t sum) {
    const RmsNormed made = rms_norm_forward(x, {}, weight, form);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.inv_rms});
    ctx->saved_data["factor"] = static_cast<std::int64_t>(form.factor);
    ctx->saved_data["sum"] = sum;
    return made.normed;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const RmsNormGradients made = rms_norm_backward(grads[0], {}, {saved[0], {}, saved[2]}, saved[1], form_of(ctx),
                                                    to_sum(ctx->saved_data["sum"].toInt()));
    return {made.x, made.weight, at::Tensor(), at::Tensor()};
  }
};

class AddRmsNormFunction : public torch::autograd::Function<AddRmsNormFunction> {
 public:
  // Without a residual the sum is x itself, whose gradient then comes here as a whole, as it does with one.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const std::optional<at::Tensor>& residual,
                               const at::Tensor& weight, RmsNormForm form, std::int64_t gradient_sum) {
    const RmsNormed made = rms_norm_forward(x, residual.value_or(at::Tensor()), weight, form);
    ctx->saved_data["factor"] = static_cast<std::int64_t>(form.factor);
    ctx->saved_data["added"] = residual.has_value();
    ctx->save_for_backward({made.sum, weight.contiguous(), made.inv_rms});
    ctx->saved_data["sum"] = gradient_sum;
    ctx->set_materialize_grads(false);  // where nobody uses the sum, no zeros are made and added
    return {made.sum, made.normed};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const bool added = ctx->saved_data["added"].toBool();
    const auto of_both = [&](const at::Tensor& dx, const at::Tensor& weight) -> variable_list {
      return {dx, added ? dx : at::Tensor(), weight, at::Tensor(), at::Tensor()};
    };
    if (!grads[1].defined()) return of_both(grads[0], {});
    const RmsNormGradients made = rms_norm_backward(grads[1], grads[0], {saved[0], {}, saved[2]}, saved[1],
                                                    form_of(ctx), to_sum(ctx->saved_data["sum"].toInt()));
    return of_both(made.x, made.weight);
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, RmsNormForm form, GradientSum* gradient_sum) {
  if (x.numel() == 0 || !fits_rows(x, weight) || !backend_for({x, weight})) return reference::rms_norm(x, weight, form);
  if (!at::GradMode::is_enabled()) return rms_norm_forward(x, {}, weight, form).normed;
  return RmsNormFunction::apply(x, weight, form, to_number(gradient_sum));
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form,
                     GradientSum* gradient_sum) {
  const bool adds = residual.defined(), fits = x.numel() > 0 && fits_rows(x, weight) && backend_for({x, weight});
  if (!adds && (!fits || !at::GradMode::is_enabled())) return {x, rms_norm(x, weight, form, gradient_sum)};
  if (!fits || (adds && (x.sizes() != residual.sizes() || !backend_for({x, residual, weight}))))
    return reference::add_rms_norm(x, residual, weight, form);
  if (!at::GradMode::is_enabled()) {
    const RmsNormed made = rms_norm_forward(x, residual, weight, form);
    return {made.sum, made.normed};
  }
  const variable_list made = AddRmsNormFunction::apply(x, adds ? std::optional(residual) : std::nullopt, weight, form,
                                                       to_number(gradient_sum));
  return {made[0], made[1]};
}

}  // namespace hone::ops
