// Products with weights, their gradients, and where the weights' gradients go.
#include "ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hone/error.h"
#include "hone/gradient_sum.h"
#include "ops/column_sum.h"
#include "ops/kernels.h"
#include "ops/matmul.h"
#include "ops/skinny.h"

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

// dy^T x: into its sum if it has one (then nothing is left for autograd), else as a new tensor.
at::Tensor weight_gradient(const at::Tensor& dy_NO, const at::Tensor& x_NI, GradientSum* sum) {
  if (sum && sum->takes()) {
    matmul_into(sum->sum, {{dy_NO.t(), x_NI}}, sum->started);
    sum->started = true;
    return {};
  }
  at::Tensor made = at::empty({dy_NO.size(1), x_NI.size(1)}, x_NI.options());
  matmul_into(made, {{dy_NO.t(), x_NI}});
  return made;
}

std::int64_t to_number(GradientSum* sum) { return reinterpret_cast<std::int64_t>(sum); }
GradientSum* to_sum(const c10::IValue& number) { return reinterpret_cast<GradientSum*>(number.toInt()); }

// Tensors of a call: x, the weights, then those biases that there are.
class LinearsFunction : public torch::autograd::Function<LinearsFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const std::vector<std::int64_t>& sums,
                               const std::vector<std::int64_t>& bias_at) {
    const at::Tensor x_NI = rows_of(tensors[0]);
    variable_list made;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor bias = bias_at[i] > 0 ? tensors[bias_at[i]] : at::Tensor();
      made.push_back(shaped_like(forward_one(x_NI, tensors[1 + i], bias), tensors[0]));
    }
    ctx->set_materialize_grads(false);  // an output that nobody uses costs nothing
    ctx->save_for_backward(variable_list(tensors.begin(), tensors.begin() + 1 + sums.size()));
    ctx->saved_data["sums"] = sums;
    ctx->saved_data["bias_at"] = bias_at;
    return made;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<std::int64_t> sums = ctx->saved_data["sums"].toIntVector(),
                                    bias_at = ctx->saved_data["bias_at"].toIntVector();
    const at::Tensor x_NI = rows_of(saved[0]);
    const auto biases = bias_at.size() - std::count(bias_at.begin(), bias_at.end(), 0);
    variable_list made(saved.size() + biases + 2);
    std::vector<Factors> to_x;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!grads[i].defined()) continue;
      const at::Tensor dy_NO = rows_of(grads[i]);
      to_x.push_back({dy_NO, saved[1 + i]});
      if (ctx->needs_input_grad(1 + i))
        made[1 + i] = weight_gradient(dy_NO, x_NI, reinterpret_cast<GradientSum*>(sums[i]));
      if (bias_at[i] > 0 && ctx->needs_input_grad(bias_at[i])) made[bias_at[i]] = column_sum(dy_NO);
    }
    if (ctx->needs_input_grad(0) && !to_x.empty()) {
      at::Tensor dx = at::empty(x_NI.sizes(), x_NI.options());
      matmul_into(dx, to_x);
      made[0] = dx.view(saved[0].sizes());
    }
    return made;
  }
};

class GatedLinearFunction : public torch::autograd::Function<GatedLinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias, std::int64_t activation,
                            std::int64_t sum) {
    ctx->save_for_backward({gate, up, weight});
    ctx->saved_data["activation"] = activation;
    ctx->saved_data["sum"] = sum;
    ctx->saved_data["bias"] = bias.has_value();
    const at::Tensor inner = gated(gate, up, static_cast<Activation>(activation));
    return shaped_like(forward_one(rows_of(inner), weight, bias.value_or(at::Tensor())), gate);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], dy_NO = rows_of(grads[0]);
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    variable_list made(6);
    if (ctx->needs_input_grad(2))
      made[2] = weight_gradient(dy_NO, rows_of(gated(gate, up, activation)), to_sum(ctx->saved_data["sum"]));
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(3)) made[3] = column_sum(dy_NO);
    if (ctx->needs_input_grad(0) || ctx->needs_input_grad(1)) {
      at::Tensor dinner = at::empty(rows_of(gate).sizes(), gate.options());
      matmul_into(dinner, {{dy_NO, saved[2]}});
      GatedGradients both = gated_backward(dinner.view(gate.sizes()), gate, up, activation);
      made[0] = both.gate, made[1] = both.up;
    }
    return made;
  }
};

std::vector<at::Tensor> with_graph(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  variable_list tensors = {x};
  std::vector<std::int64_t> sums, bias_at(weights.size(), 0);
  for (const LinearWeight& w : weights) tensors.push_back(w.weight_OI), sums.push_back(to_number(w.sum));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].bias_O.defined()) continue;
    bias_at[i] = static_cast<std::int64_t>(tensors.size());
    tensors.push_back(weights[i].bias_O);
  }
  return LinearsFunction::apply(at::TensorList(tensors), sums, bias_at);
}

bool takes(const at::Tensor& x, const LinearWeight& w) {
  return x.numel() > 0 && w.weight_OI.numel() > 0 && kernels_take({x, w.weight_OI});
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
  const bool ours = std::all_of(weights.begin(), weights.end(), [&](const LinearWeight& w) { return takes(x, w); });
  if (ours && at::GradMode::is_enabled()) return with_graph(x, weights);
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

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation, const LinearWeight& w) {
  if (!takes(gate, w) || gate.sizes() != up.sizes()) return reference::gated_linear(gate, up, activation, w);
  if (!at::GradMode::is_enabled()) return linear(gated(gate, up, activation), w);
  const auto bias = w.bias_O.defined() ? std::optional(w.bias_O) : std::nullopt;
  return GatedLinearFunction::apply(gate, up, w.weight_OI, bias, static_cast<std::int64_t>(activation),
                                    to_number(w.sum));
}

at::Tensor gated_mlp(const at::Tensor& x, const GatedMlpWeights& w, Activation activation) {
  if (is_skinny(x) && takes(x, w.gate) && takes(x, w.up)) {
    const at::Tensor inner = skinny_gated(rows_of(x), w.gate, w.up, activation);
    return linear(shaped_like(inner, x), w.down);
  }
  const auto both = linears(x, {w.gate, w.up});
  return gated_linear(both[0], both[1], activation, w.down);
}

}  // namespace hone::ops
