// Layer normalisation: its meaning, its gradient.
#include "ops/layer_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "ops/backend.h"
#include "ops/column_sum.h"
#include "ops/kept_sum.h"
#include "ops/passes.h"
#include "ops/row_weight.h"

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

// What the backward pass needs to know besides tensors.
void keep(AutogradContext* ctx, bool bias, const LayerNormSums& sums) {
  ctx->saved_data["bias"] = bias;
  ctx->saved_data["weight_sum"] = to_number(sums.weight);
  ctx->saved_data["bias_sum"] = to_number(sums.bias);
}

LayerNormed forward_rows(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                         const at::Tensor& bias, double eps) {
  const sections::Timed section(sections::Section::elementwise);
  count_bytes({x, residual, residual, x});
  return backend_of(x).norms.layer_norm(x, residual, weight, bias, eps);
}

// {dx, dweight, dbias}: what the sums have taken is undefined.
variable_list backward_rows(const at::Tensor& dy, const at::Tensor& extra, AutogradContext* ctx) {
  const sections::Timed section(sections::Section::elementwise);
  const variable_list saved = ctx->get_saved_variables();
  const auto sum = [&](const char* name) { return to_sum(ctx->saved_data[name].toInt()); };
  const at::Tensor &x = saved[0], &weight = saved[1];
  const NormGradients made =
      backend_of(x).norms.layer_norm_backward(dy, extra, weight, {x, {}, /*mean=*/saved[2], /*inv_std=*/saved[3]});
  count_bytes({dy, extra, x, made.x});
  const auto type = weight.scalar_type();
  return {made.x, row_gradient(made.weight_BO, type, sum("weight_sum")),
          ctx->saved_data["bias"].toBool() ? row_gradient(made.bias_BO, type, sum("bias_sum")) : at::Tensor()};
}

std::optional<at::Tensor> maybe(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, double eps, const LayerNormSums& sums) {
    const LayerNormed made = forward_rows(x, {}, weight, bias.value_or(at::Tensor()), eps);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.mean, made.inv_std});
    keep(ctx, bias.has_value(), sums);
    return made.normed;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list made = backward_rows(grads[0], {}, ctx);
    return {made[0], made[1], made[2], at::Tensor(), at::Tensor()};
  }
};

class AddLayerNormFunction : public torch::autograd::Function<AddLayerNormFunction> {
 public:
  // Without a residual the sum is x itself, whose gradient then comes here as a whole, as it does with one.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const std::optional<at::Tensor>& residual,
                               const at::Tensor& weight, const std::optional<at::Tensor>& bias, double eps,
                               const LayerNormSums& sums) {
    const at::Tensor none;
    const LayerNormed made = forward_rows(x, residual.value_or(none), weight, bias.value_or(none), eps);
    ctx->save_for_backward({made.sum, weight.contiguous(), made.mean, made.inv_std});
    keep(ctx, bias.has_value(), sums);
    ctx->saved_data["added"] = residual.has_value();
    ctx->set_materialize_grads(false);  // where nobody uses the sum, no zeros are made and added
    return {made.sum, made.normed};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const bool added = ctx->saved_data["added"].toBool();
    const auto of_both = [&](const at::Tensor& dx, const at::Tensor& weight, const at::Tensor& bias) -> variable_list {
      return {dx, added ? dx : at::Tensor(), weight, bias, at::Tensor(), at::Tensor()};
    };
    if (!grads[1].defined()) return of_both(grads[0], {}, {});
    const variable_list made = backward_rows(grads[1], grads[0], ctx);
    return of_both(made[0], made[1], made[2]);
  }
};

bool backend_fits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto fits = [&](const at::Tensor& w) { return fits_rows(x, w) && backend_for({x, w}); };
  return x.numel() > 0 && fits(weight) && (!bias.defined() || fits(bias));
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                      LayerNormSums sums) {
  if (!backend_fits(x, weight, bias)) return reference::layer_norm(x, weight, bias, eps);
  return LayerNormFunction::apply(x, weight, maybe(bias), eps, sums);
}

AddNorm add_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, double eps, LayerNormSums sums) {
  const bool adds = residual.defined();
  if (!adds && (!at::GradMode::is_enabled() || !backend_fits(x, weight, bias)))
    return {x, layer_norm(x, weight, bias, eps, sums)};
  if (!backend_fits(x, weight, bias) || (adds && (!backend_for({x, residual}) || x.sizes() != residual.sizes())))
    return reference::add_layer_norm(x, residual, weight, bias, eps);
  const variable_list made = AddLayerNormFunction::apply(x, maybe(residual), weight, maybe(bias), eps, sums);
  return {made[0], made[1]};
}

}  // namespace hone::ops
