// Products with weights, their gradients, and where the weights' gradients go.
#include "ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hone/error.h"
#include "hone/gradient_sum.h"
#include "ops/backend.h"
#include "ops/column_sum.h"
#include "ops/kept_sum.h"
#include "ops/matmul.h"
#include "ops/rms_norm.h"
#include "ops/skinny.h"
#include "ops/weight_gradient.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

at::Tensor forward_one(const at::Tensor& x_NI, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  at::Tensor y = at::empty({x_NI.size(0), weight_OI.size(0)}, x_NI.options());
  matmul_into(y, {{x_NI, weight_OI.t()}});
  if (bias_O.defined()) y.add_(bias_O);
  return y;
}

at::Tensor shaped_like(const at::Tensor& y_NO, const at::Tensor& x) {
  auto sizes = x.sizes().vec();
  sizes.back() = y_NO.size(1);
  return y_NO.view(sizes);
}

// How the tensors of a call lie: x, the residual if there is one, the norm's weight if there is one, the weights, then
// those biases that there are.
struct CallLayout {
  std::vector<std::int64_t> sums;                 // of the weights, as numbers
  std::vector<std::int64_t> bias_sums, bias_at;   // 0: none
  std::int64_t first = 1;                         // weight
  double eps = 0;
  std::int64_t norm_sum = 0;

  bool norm() const { return first > 1; }
  bool residual() const { return first > 2; }
};

class LinearsFunction : public torch::autograd::Function<LinearsFunction> {
 public:
  // The products, then x + residual if there is one.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const CallLayout& call) {
    variable_list kept{tensors[0]}, made;
    at::Tensor input = tensors[0];
    if (call.norm()) {
      const at::Tensor weight = tensors[call.first - 1].contiguous();
      const RmsNormed norm =
          rms_norm_forward(tensors[0], call.residual() ? tensors[1] : at::Tensor(), weight, call.eps);
      kept = {norm.sum, weight, norm.inv_rms}, input = norm.normed;
    }
    for (std::size_t i = 0; i < call.sums.size(); ++i) {
      const at::Tensor bias = call.bias_at[i] > 0 ? tensors[call.bias_at[i]] : at::Tensor();
      made.push_back(shaped_like(forward_one(rows_of(input), tensors[call.first + i], bias), input));
      kept.push_back(tensors[call.first + i]);
    }
    if (call.residual()) made.push_back(kept[0]);
    ctx->set_materialize_grads(false);  // an output that nobody uses costs nothing
    ctx->save_for_backward(kept);
    ctx->saved_data["sums"] = call.sums;
    ctx->saved_data["bias_sums"] = call.bias_sums;
    ctx->saved_data["bias_at"] = call.bias_at;
    ctx->saved_data["first"] = call.first;
    ctx->saved_data["eps"] = call.eps;
    ctx->saved_data["norm_sum"] = call.norm_sum;
    return made;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto& kept = ctx->saved_data;
    const CallLayout call{kept.at("sums").toIntVector(),    kept.at("bias_sums").toIntVector(),
                          kept.at("bias_at").toIntVector(), kept.at("first").toInt(),
                          kept.at("eps").toDouble(),        kept.at("norm_sum").toInt()};
    const at::Tensor* weights = &saved[call.norm() ? 3 : 1];
    const auto biases = call.bias_at.size() - std::count(call.bias_at.begin(), call.bias_at.end(), 0);
    variable_list made(call.first + call.sums.size() + biases + 1);
    add_weight_gradients(ctx, call, saved, grads, made);
    at::Tensor dx;
    if (call.norm() || ctx->needs_input_grad(0)) dx = input_gradient(weights, call.sums.size(), grads, saved[0]);
    const at::Tensor direct = call.residual() ? grads.back() : at::Tensor();
    if (call.norm() && dx.defined()) {
      const RmsNormGradients norm =
          rms_norm_backward(dx, direct, {saved[0], {}, saved[2]}, saved[1], to_sum(call.norm_sum));
      dx = norm.x, made[call.first - 1] = norm.weight;
    } else if (!dx.defined()) {
      dx = direct;
    }
    made[0] = dx;
    if (call.residual()) made[1] = dx;
    return made;
  }

 private:
  static void add_weight_gradients(AutogradContext* ctx, const CallLayout& call, const variable_list& saved,
                                   const variable_list& grads, variable_list& made) {
    at::Tensor input_NI;  // made when it is needed
    for (std::size_t i = 0; i < call.sums.size(); ++i) {
      if (!grads[i].defined()) continue;
      const at::Tensor dy_NO = rows_of(grads[i]);
      if (ctx->needs_input_grad(call.first + i)) {
        if (!input_NI.defined())
          input_NI = rows_of(call.norm() ? rms_norm_forward(saved[0], {}, saved[1], call.eps).normed : saved[0]);
        made[call.first + i] = weight_gradient(dy_NO, input_NI, to_sum(call.sums[i]));
      }
      if (call.bias_at[i] > 0 && ctx->needs_input_grad(call.bias_at[i]))
        made[call.bias_at[i]] = bias_gradient(dy_NO, to_sum(call.bias_sums[i]));
    }
  }

  // Summed over the products before it is rounded; undefined where nobody used any.
  static at::Tensor input_gradient(const at::Tensor* weights, std::size_t count, const variable_list& grads,
                                   const at::Tensor& x) {
    std::vector<Factors> factors;
    for (std::size_t i = 0; i < count; ++i)
      if (grads[i].defined()) factors.push_back({rows_of(grads[i]), weights[i]});
    if (factors.empty()) return {};
    const at::Tensor dx = at::empty(x.sizes(), x.options());
    at::Tensor dx_NI = dx.view({-1, x.size(-1)});
    matmul_into(dx_NI, factors);
    return dx;
  }
};

class GatedLinearFunction : public torch::autograd::Function<GatedLinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias, std::int64_t activation,
                            std::int64_t sum, std::int64_t bias_sum) {
    ctx->save_for_backward({gate, up, weight});
    ctx->saved_data["activation"] = activation;
    ctx->saved_data["sum"] = sum;
    ctx->saved_data["bias_sum"] = bias_sum;
    ctx->saved_data["bias"] = bias.has_value();
    const at::Tensor inner = gated(gate, up, static_cast<Activation>(activation));
    return shaped_like(forward_one(rows_of(inner), weight, bias.value_or(at::Tensor())), gate);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], dy_NO = rows_of(grads[0]);
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    variable_list made(7);
    if (ctx->needs_input_grad(2))
      made[2] = weight_gradient(dy_NO, rows_of(gated(gate, up, activation)), to_sum(ctx->saved_data["sum"].toInt()));
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(3))
      made[3] = bias_gradient(dy_NO, to_sum(ctx->saved_data["bias_sum"].toInt()));
    if (ctx->needs_input_grad(0) || ctx->needs_input_grad(1)) {
      at::Tensor dinner = at::empty(rows_of(gate).sizes(), gate.options());
      matmul_into(dinner, {{dy_NO, saved[2]}});
      GatedGradients both = gated_backward(dinner.view(gate.sizes()), gate, up, activation, /*overwrite=*/true);
      made[0] = both.gate, made[1] = both.up;
    }
    return made;
  }
};

// `tensors`: what comes before the weights.
variable_list with_graph(variable_list tensors, const std::vector<LinearWeight>& weights, double eps = 0,
                         GradientSum* norm_sum = nullptr) {
  CallLayout call;
  call.bias_at.resize(weights.size()), call.first = static_cast<std::int64_t>(tensors.size());
  call.eps = eps, call.norm_sum = to_number(norm_sum);
  for (const LinearWeight& w : weights) {
    tensors.push_back(w.weight_OI);
    call.sums.push_back(to_number(w.sum)), call.bias_sums.push_back(to_number(w.bias_sum));
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].bias_O.defined()) continue;
    call.bias_at[i] = static_cast<std::int64_t>(tensors.size());
    tensors.push_back(weights[i].bias_O);
  }
  return LinearsFunction::apply(at::TensorList(tensors), call);
}

bool takes(const at::Tensor& x, const LinearWeight& w) {
  return x.numel() > 0 && w.weight_OI.numel() > 0 && backend_for({x, w.weight_OI});
}
bool takes(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  return std::all_of(weights.begin(), weights.end(), [&](const LinearWeight& w) { return takes(x, w); });
}
// Few rows that need no gradient, as in decoding.
bool is_skinny(const at::Tensor& x) { return !at::GradMode::is_enabled() && x.numel() <= kSkinnyRows * x.size(-1); }

}  // namespace

namespace reference {

at::Tensor linear(const at::Tensor& x, const LinearWeight& w) { return at::linear(x, w.weight_OI, w.bias_O); }

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation, const LinearWeight& w) {
  return reference::linear(reference::gated(gate, up, activation), w);
}

}  // namespace reference

std::vector<at::Tensor> linears(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  HONE_ASSERT(!weights.empty());
  const bool ours = takes(x, weights);
  if (ours && at::GradMode::is_enabled()) return with_graph({x}, weights);
  std::vector<at::Tensor> made;
  if (ours && is_skinny(x)) {
    for (const at::Tensor& y_NO : skinny_products(rows_of(x), weights)) made.push_back(shaped_like(y_NO, x));
    return made;
  }
  for (const LinearWeight& w : weights)
    made.push_back(ours ? shaped_like(forward_one(rows_of(x), w.weight_OI, w.bias_O), x) : reference::linear(x, w));
  return made;
}

at::Tensor linear(const at::Tensor& x, const LinearWeight& weight) { return linears(x, {weight})[0]; }

NormLinears norm_linears(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, double eps,
                         const std::vector<LinearWeight>& weights, GradientSum* norm_sum) {
  const bool fits = at::GradMode::is_enabled() && takes(x, weights) && backend_for({x, norm_I}) &&
                    (!residual.defined() || (backend_for({x, residual}) && x.sizes() == residual.sizes()));
  if (!fits) {
    const AddNorm norm = add_rms_norm(x, residual, norm_I, eps, norm_sum);
    return {norm.sum, linears(norm.normed, weights)};
  }
  variable_list tensors{x};
  if (residual.defined()) tensors.push_back(residual);
  tensors.push_back(norm_I);
  NormLinears made{x, with_graph(std::move(tensors), weights, eps, norm_sum)};
  if (residual.defined()) made.sum = made.products.back(), made.products.pop_back();
  return made;
}

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation, const LinearWeight& w) {
  if (!takes(gate, w) || gate.sizes() != up.sizes()) return reference::gated_linear(gate, up, activation, w);
  if (!at::GradMode::is_enabled()) return linear(gated(gate, up, activation), w);
  const auto bias = w.bias_O.defined() ? std::optional(w.bias_O) : std::nullopt;
  return GatedLinearFunction::apply(gate, up, w.weight_OI, bias, static_cast<std::int64_t>(activation),
                                    to_number(w.sum), to_number(w.bias_sum));
}

at::Tensor gated_mlp(const at::Tensor& x, const GatedMlpWeights& w, Activation activation) {
  if (is_skinny(x) && takes(x, {w.gate, w.up}))
    return linear(shaped_like(skinny_gated(rows_of(x), w.gate, w.up, activation), x), w.down);
  const auto both = linears(x, {w.gate, w.up});
  return gated_linear(both[0], both[1], activation, w.down);
}

NormGatedMlp norm_gated_mlp(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, double eps,
                            const GatedMlpWeights& w, Activation activation, GradientSum* norm_sum) {
  if (is_skinny(x)) {
    const AddNorm norm = add_rms_norm(x, residual, norm_I, eps, norm_sum);
    return {norm.sum, gated_mlp(norm.normed, w, activation)};
  }
  const auto [sum, both] = norm_linears(x, residual, norm_I, eps, {w.gate, w.up}, norm_sum);
  return {sum, gated_linear(both[0], both[1], activation, w.down)};
}

}  // namespace hone::ops
