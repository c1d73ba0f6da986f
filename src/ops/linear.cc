// Products with weights, their gradients, and where the weights' gradients go.
#include "ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "hone/error.h"
#include "hone/gradient_sum.h"
#include "ops/backend.h"
#include "ops/checkpoint.h"
#include "ops/column_sum.h"
#include "ops/float8.h"
#include "ops/kept_sum.h"
#include "ops/matmul.h"
#include "ops/rms_norm.h"
#include "ops/row_weight.h"
#include "ops/skinny.h"
#include "ops/weight_gradient.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// What products have as their input.
struct Source {
  explicit Source(const at::Tensor& x_NI) : x_NI(x_NI), float8(x_NI, /*is_gradient=*/false) {}
  const at::Tensor x_NI;
  Float8Source float8;
};

// added: further products that are summed with it before it is rounded.
at::Tensor forward_one(Source& x, const at::Tensor& weight_OI, const at::Tensor& bias_O, Float8 recipe,
                       std::vector<Factors> added) {
  at::Tensor y = at::empty({x.x_NI.size(0), weight_OI.size(0)}, x.x_NI.options());
  if (recipe != Float8::off) {
    float8_into(y, {float8_forward(x.float8, weight_OI, recipe)}, added, /*fast=*/true);
    if (bias_O.defined()) y.add_(bias_O);
    return y;
  }
  added.insert(added.begin(), {x.x_NI, weight_OI.t()});
  if (bias_O.defined())
    matmul_with_bias_into(y, std::move(added), bias_O);
  else
    matmul_into(y, added);
  return y;
}

// A gradient of products, and what it gives for their input and for a weight.
struct Incoming {
  explicit Incoming(const at::Tensor& dy_NO) : dy_NO(dy_NO), float8(dy_NO, /*is_gradient=*/true) {}
  const at::Tensor dy_NO;
  Float8Source float8;
};
at::Tensor gradient_of_weight(Incoming& dy, Source& x, Float8 recipe, GradientSum* sum) {
  if (recipe == Float8::off) return weight_gradient(dy.dy_NO, x.x_NI, sum);
  return float8_weight_gradient(dy.float8, x.float8, recipe, x.x_NI.scalar_type(), sum);
}
// The products that an input's gradient is the sum of.
struct ToInput {
  std::vector<Factors> factors;
  std::vector<Float8Factors> in_float8;
  void add(Incoming& dy, const at::Tensor& weight_OI, Float8 recipe) {
    if (recipe == Float8::off)
      factors.push_back({dy.dy_NO, weight_OI});
    else
      in_float8.push_back(float8_back(dy.float8, weight_OI, recipe));
  }
  bool empty() const { return factors.empty() && in_float8.empty(); }
  void into(at::Tensor& dx_NI) const {
    in_float8.empty() ? matmul_into(dx_NI, factors) : float8_into(dx_NI, in_float8, factors, /*fast=*/false);
  }
};

Float8 to_recipe(std::int64_t number) { return static_cast<Float8>(number); }
std::int64_t number_of(Float8 recipe) { return static_cast<std::int64_t>(recipe); }

// scale * x A^T: what a low rank's B is multiplied with.
at::Tensor inner_of(const at::Tensor& x_NI, const at::Tensor& a_RI, double scale) {
  const auto wide = at::toOpMathType(x_NI.scalar_type());  // rounded once, and the scale not at all
  at::Tensor inner =
      at::empty({x_NI.size(0), a_RI.size(0)}, x_NI.options().dtype(scale == 1 ? x_NI.scalar_type() : wide));
  matmul_into(inner, {{x_NI, a_RI.t()}});
  return scale == 1 ? inner : inner.mul_(scale).to(x_NI.scalar_type());
}

std::vector<Factors> added_by(const std::vector<LowRank>& low_ranks, const at::Tensor& x_NI) {
  std::vector<Factors> added;
  for (const LowRank& low : low_ranks) added.push_back({inner_of(x_NI, low.a_RI, low.scale), low.b_OR.t()});
  return added;
}

// The low ranks of a call among its tensors: A, then B. As numbers, for autograd's functions to keep.
struct RankLayout {
  std::vector<std::int64_t> weight, at, a_sums, b_sums;  // weight: the number of the one that each is added to
  std::vector<double> scales;
  std::size_t size() const { return weight.size(); }

  void append(const std::vector<LowRank>& low_ranks, std::int64_t of_weight, variable_list& tensors) {
    for (const LowRank& low : low_ranks) {
      weight.push_back(of_weight), at.push_back(static_cast<std::int64_t>(tensors.size()));
      tensors.insert(tensors.end(), {low.a_RI, low.b_OR});
      a_sums.push_back(to_number(low.a_sum)), b_sums.push_back(to_number(low.b_sum)), scales.push_back(low.scale);
    }
  }
  void keep(AutogradContext* ctx) const {
    ctx->saved_data["rank_weight"] = weight, ctx->saved_data["rank_at"] = at;
    ctx->saved_data["rank_a_sums"] = a_sums, ctx->saved_data["rank_b_sums"] = b_sums;
    ctx->saved_data["rank_scales"] = scales;
  }
  static RankLayout kept(AutogradContext* ctx) {
    const auto& kept = ctx->saved_data;
    return {kept.at("rank_weight").toIntVector(), kept.at("rank_at").toIntVector(),
            kept.at("rank_a_sums").toIntVector(), kept.at("rank_b_sums").toIntVector(),
            kept.at("rank_scales").toDoubleVector()};
  }
};

// Of one low rank, from the gradient of its product. Saved: A, B and inner_of().
class RankBackward {
 public:
  RankBackward(AutogradContext* ctx, const RankLayout& ranks, std::size_t r, const at::Tensor* saved,
               const at::Tensor& dy_NO)
      : ctx_(ctx), ranks_(ranks), r_(r), a_RI_(saved[0]), b_OR_(saved[1]), inner_NR_(saved[2]), dy_NO_(dy_NO) {
    dinner_NR_ = inner_of(dy_NO_, b_OR_.t(), ranks.scales[r]);
  }
  bool needs_input() const { return ctx_->needs_input_grad(ranks_.at[r_]); }
  Factors to_input() const { return {dinner_NR_, a_RI_}; }  // what it adds to the input's gradient
  void add_gradients(const at::Tensor& x_NI, variable_list& made) const {
    const std::int64_t at = ranks_.at[r_];
    if (needs_input()) made[at] = weight_gradient(dinner_NR_, x_NI, to_sum(ranks_.a_sums[r_]));
    if (ctx_->needs_input_grad(at + 1)) made[at + 1] = weight_gradient(dy_NO_, inner_NR_, to_sum(ranks_.b_sums[r_]));
  }

 private:
  AutogradContext* ctx_;
  const RankLayout& ranks_;
  std::size_t r_;
  at::Tensor a_RI_, b_OR_, inner_NR_, dy_NO_, dinner_NR_;
};

at::Tensor shaped_like(const at::Tensor& y_NO, const at::Tensor& x) {
  auto sizes = x.sizes().vec();
  sizes.back() = y_NO.size(1);
  return y_NO.view(sizes);
}

// How the tensors of a call lie: x, the residual if there is one, the norm's weight if there is one, the weights, those
// biases that there are, then low ranks.
struct CallLayout {
  std::vector<std::int64_t> sums;                // of the weights, as numbers
  std::vector<std::int64_t> bias_sums, bias_at;  // 0: none
  std::vector<std::int64_t> float8;              // recipes of the weights
  std::int64_t first = 1;                        // weight
  RmsNormForm form = {};                         // of the norm
  std::int64_t norm_sum = 0;
  RankLayout ranks = {};

  bool norm() const { return first > 1; }
  bool residual() const { return first > 2; }
};

class LinearsFunction : public torch::autograd::Function<LinearsFunction> {
 public:
  // The products, then, where there is a norm, what it is of: x + residual, or x itself. Who adds to x takes that one,
  // so that all of x's gradient comes here and is summed with the norm's before it is rounded.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const CallLayout& call) {
    variable_list kept{tensors[0]}, made;
    at::Tensor input = tensors[0];
    if (call.norm()) {
      const at::Tensor weight = tensors[call.first - 1].contiguous();
      const RmsNormed norm =
          rms_norm_forward(tensors[0], call.residual() ? tensors[1] : at::Tensor(), weight, call.form);
      kept = {norm.sum, weight, norm.inv_rms}, input = norm.normed;
    }
    const at::Tensor input_NI = rows_of(input);
    Source source(input_NI);
    variable_list of_ranks;
    for (std::size_t i = 0; i < call.sums.size(); ++i) {
      const at::Tensor bias = call.bias_at[i] > 0 ? tensors[call.bias_at[i]] : at::Tensor();
      std::vector<Factors> added;
      for (std::size_t r = 0; r < call.ranks.size(); ++r) {
        if (call.ranks.weight[r] != static_cast<std::int64_t>(i)) continue;
        const at::Tensor &a_RI = tensors[call.ranks.at[r]], &b_OR = tensors[call.ranks.at[r] + 1];
        added.push_back({inner_of(input_NI, a_RI, call.ranks.scales[r]), b_OR.t()});
        of_ranks.insert(of_ranks.end(), {a_RI, b_OR, added.back().a_MK});
      }
      made.push_back(shaped_like(
          forward_one(source, tensors[call.first + i], bias, to_recipe(call.float8[i]), std::move(added)), input));
      kept.push_back(tensors[call.first + i]);
    }
    if (call.norm()) made.push_back(kept[0]);
    kept.insert(kept.end(), of_ranks.begin(), of_ranks.end());
    call.ranks.keep(ctx);
    ctx->set_materialize_grads(false);  // an output that nobody uses costs nothing
    ctx->save_for_backward(kept);
    ctx->saved_data["sums"] = call.sums;
    ctx->saved_data["bias_sums"] = call.bias_sums;
    ctx->saved_data["bias_at"] = call.bias_at;
    ctx->saved_data["float8"] = call.float8;
    ctx->saved_data["first"] = call.first;
    ctx->saved_data["eps"] = call.form.eps;
    ctx->saved_data["factor"] = static_cast<std::int64_t>(call.form.factor);
    ctx->saved_data["norm_sum"] = call.norm_sum;
    return made;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto& kept = ctx->saved_data;
    const CallLayout call{kept.at("sums").toIntVector(),
                          kept.at("bias_sums").toIntVector(),
                          kept.at("bias_at").toIntVector(),
                          kept.at("float8").toIntVector(),
                          kept.at("first").toInt(),
                          {kept.at("eps").toDouble(), static_cast<RmsFactor>(kept.at("factor").toInt())},
                          kept.at("norm_sum").toInt(),
                          RankLayout::kept(ctx)};
    const at::Tensor* weights = &saved[call.norm() ? 3 : 1];
    const auto biases = call.bias_at.size() - std::count(call.bias_at.begin(), call.bias_at.end(), 0);
    variable_list made(call.first + call.sums.size() + biases + 2 * call.ranks.size() + 1);
    std::vector<Incoming> incoming;
    for (std::size_t i = 0; i < call.sums.size(); ++i)
      incoming.emplace_back(grads[i].defined() ? rows_of(grads[i]) : at::Tensor());
    std::vector<RankBackward> ranks;
    for (std::size_t r = 0; r < call.ranks.size(); ++r)
      if (const at::Tensor& dy = grads[call.ranks.weight[r]]; dy.defined())
        ranks.emplace_back(ctx, call.ranks, r, weights + call.sums.size() + 3 * r, rows_of(dy));
    add_weight_gradients(ctx, call, saved, incoming, ranks, made);
    at::Tensor dx;
    if (call.norm() || ctx->needs_input_grad(0)) dx = input_gradient(call, weights, incoming, ranks, saved[0]);
    const at::Tensor direct = call.norm() ? grads.back() : at::Tensor();
    if (call.norm() && dx.defined()) {
      const RmsNormGradients norm =
          rms_norm_backward(dx, direct, {saved[0], {}, saved[2]}, saved[1], call.form, to_sum(call.norm_sum));
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
                                   std::vector<Incoming>& incoming, const std::vector<RankBackward>& ranks,
                                   variable_list& made) {
    std::optional<Source> source;  // made when it is needed
    const auto input = [&]() -> Source& {
      if (!source)
        source.emplace(rows_of(call.norm() ? rms_norm_forward(saved[0], {}, saved[1], call.form).normed : saved[0]));
      return *source;
    };
    for (std::size_t i = 0; i < call.sums.size(); ++i) {
      Incoming& dy = incoming[i];
      if (!dy.dy_NO.defined()) continue;
      if (ctx->needs_input_grad(call.first + i))
        made[call.first + i] = gradient_of_weight(dy, input(), to_recipe(call.float8[i]), to_sum(call.sums[i]));
      if (call.bias_at[i] > 0 && ctx->needs_input_grad(call.bias_at[i]))
        made[call.bias_at[i]] = bias_gradient(dy.dy_NO, to_sum(call.bias_sums[i]));
    }
    for (const RankBackward& rank : ranks) rank.add_gradients(rank.needs_input() ? input().x_NI : at::Tensor(), made);
  }

  // Summed over the products before it is rounded; undefined where nobody used any.
  static at::Tensor input_gradient(const CallLayout& call, const at::Tensor* weights, std::vector<Incoming>& incoming,
                                   const std::vector<RankBackward>& ranks, const at::Tensor& x) {
    ToInput products;
    for (std::size_t i = 0; i < incoming.size(); ++i)
      if (incoming[i].dy_NO.defined()) products.add(incoming[i], weights[i], to_recipe(call.float8[i]));
    for (const RankBackward& rank : ranks) products.factors.push_back(rank.to_input());
    if (products.empty()) return {};
    const at::Tensor dx = at::empty(x.sizes(), x.options());
    at::Tensor dx_NI = dx.view({-1, x.size(-1)});
    products.into(dx_NI);
    return dx;
  }
};

class GatedLinearFunction : public torch::autograd::Function<GatedLinearFunction> {
 public:
  // Tensors: gate, up, the weight, its bias if it has one, then low ranks.
  struct Call {
    std::int64_t activation = 0, sum = 0, bias_sum = 0;
    bool bias = false;
    Float8 float8 = Float8::off;
    RankLayout ranks = {};
  };
  static at::Tensor forward(AutogradContext* ctx, at::TensorList tensors, const Call& call) {
    const at::Tensor &gate = tensors[0], &up = tensors[1], &weight = tensors[2];
    variable_list kept{gate, up, weight};
    const at::Tensor inner_NI = rows_of(gated(gate, up, static_cast<Activation>(call.activation)));
    std::vector<Factors> added;
    for (std::size_t r = 0; r < call.ranks.size(); ++r) {
      const at::Tensor &a_RI = tensors[call.ranks.at[r]], &b_OR = tensors[call.ranks.at[r] + 1];
      added.push_back({inner_of(inner_NI, a_RI, call.ranks.scales[r]), b_OR.t()});
      kept.insert(kept.end(), {a_RI, b_OR, added.back().a_MK});
    }
    ctx->save_for_backward(kept);
    ctx->saved_data["activation"] = call.activation;
    ctx->saved_data["sum"] = call.sum;
    ctx->saved_data["bias_sum"] = call.bias_sum;
    ctx->saved_data["bias"] = call.bias;
    ctx->saved_data["float8"] = number_of(call.float8);
    call.ranks.keep(ctx);
    const at::Tensor bias = call.bias ? tensors[3] : at::Tensor();
    Source source(inner_NI);
    return shaped_like(forward_one(source, weight, bias, call.float8, std::move(added)), gate);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], dy_NO = rows_of(grads[0]);
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const bool bias = ctx->saved_data["bias"].toBool();
    const RankLayout layout = RankLayout::kept(ctx);
    std::vector<RankBackward> ranks;
    for (std::size_t r = 0; r < layout.size(); ++r) ranks.emplace_back(ctx, layout, r, &saved[3 + 3 * r], dy_NO);
    variable_list made(3 + (bias ? 1 : 0) + 2 * layout.size() + 1);
    const Float8 float8 = to_recipe(ctx->saved_data["float8"].toInt());
    Incoming incoming(dy_NO);
    const bool of_weight = ctx->needs_input_grad(2);
    const bool wants_inner =
        of_weight || std::any_of(ranks.begin(), ranks.end(), [](const RankBackward& r) { return r.needs_input(); });
    at::Tensor inner;  // the input of the product: made again, with its gradient where that is wanted
    if (ctx->needs_input_grad(0) || ctx->needs_input_grad(1)) {
      // Where they lie side by side, gate's and up's gradients are one factor of their input's.
      const bool beside = backend_of(gate).products.joins_neighbours && float8 == Float8::off;
      const std::int64_t rows = dy_NO.size(0), width = gate.size(-1);
      const at::Tensor room = at::empty({rows, beside ? 2 * width : width}, gate.options());
      at::Tensor dinner = room.narrow(1, room.size(1) - width, width);
      ToInput products;
      products.add(incoming, saved[2], float8);
      for (const RankBackward& rank : ranks) products.factors.push_back(rank.to_input());
      products.into(dinner);
      const at::Tensor to_gate = beside ? room.narrow(1, 0, width).view(gate.sizes()) : at::Tensor();
      GatedGradients both = gated_backward(dinner.view(gate.sizes()), gate, up, activation,
                                           {.overwrite = true, .inner = wants_inner, .gate = to_gate});
      made[0] = both.gate, made[1] = both.up, inner = both.inner;
    } else if (wants_inner) {
      inner = gated(gate, up, activation);
    }
    if (of_weight) {
      Source source(rows_of(inner));
      made[2] = gradient_of_weight(incoming, source, float8, to_sum(ctx->saved_data["sum"].toInt()));
    }
    if (bias && ctx->needs_input_grad(3)) made[3] = bias_gradient(dy_NO, to_sum(ctx->saved_data["bias_sum"].toInt()));
    for (const RankBackward& rank : ranks) rank.add_gradients(rank.needs_input() ? rows_of(inner) : at::Tensor(), made);
    return made;
  }
};

// `tensors`: what comes before the weights.
variable_list with_graph(variable_list tensors, const std::vector<LinearWeight>& weights, RmsNormForm form = {},
                         GradientSum* norm_sum = nullptr) {
  CallLayout call;
  call.bias_at.resize(weights.size()), call.first = static_cast<std::int64_t>(tensors.size());
  call.form = form, call.norm_sum = to_number(norm_sum);
  for (const LinearWeight& w : weights) {
    tensors.push_back(w.weight_OI);
    call.sums.push_back(to_number(w.sum)), call.bias_sums.push_back(to_number(w.bias_sum));
    call.float8.push_back(number_of(w.float8));
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].bias_O.defined()) continue;
    call.bias_at[i] = static_cast<std::int64_t>(tensors.size());
    tensors.push_back(weights[i].bias_O);
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    call.ranks.append(weights[i].low_ranks, static_cast<std::int64_t>(i), tensors);
  return LinearsFunction::apply(at::TensorList(tensors), call);
}

// Where the scale is not rounded to bf16.
at::Tensor scaled(const at::Tensor& inner, double scale) {
  return (inner.to(at::toOpMathType(inner.scalar_type())) * scale).to(inner.scalar_type());
}

// The weights and all A at once, then what each B adds.
std::vector<at::Tensor> skinny_with_ranks(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights) {
  std::vector<LinearWeight> all = weights;
  for (const LinearWeight& w : weights)
    for (const LowRank& low : w.low_ranks) all.push_back({low.a_RI});
  std::vector<at::Tensor> made = skinny_products(x_RI, all);
  std::size_t inner = weights.size();
  for (std::size_t i = 0; i < weights.size(); ++i)
    for (const LowRank& low : weights[i].low_ranks)
      made[i].add_(skinny_products(scaled(made[inner++], low.scale), {{low.b_OR}})[0]);
  made.resize(weights.size());
  return made;
}

// Kernels look at no shapes: what does not fit is the reference's, which says so.
bool fit(const at::Tensor& x, const LinearWeight& w) {
  if (x.dim() == 0 || w.weight_OI.dim() != 2 || x.size(-1) != w.weight_OI.size(1)) return false;
  const std::int64_t outs = w.weight_OI.size(0);
  if (w.bias_O.defined() && (w.bias_O.dim() != 1 || w.bias_O.size(0) != outs)) return false;
  return std::all_of(w.low_ranks.begin(), w.low_ranks.end(), [&](const LowRank& low) {
    return low.a_RI.size(1) == x.size(-1) && low.b_OR.size(0) == outs && low.b_OR.size(1) == low.a_RI.size(0);
  });
}
bool takes(const at::Tensor& x, const LinearWeight& w) {
  return x.numel() > 0 && w.weight_OI.numel() > 0 && fit(x, w) && backend_for({x, w.weight_OI});
}
bool takes(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  return std::all_of(weights.begin(), weights.end(), [&](const LinearWeight& w) { return takes(x, w); });
}
// Few rows that need no gradient, as in decoding; where products are in fp8 this is a pass of training.
bool is_skinny(const at::Tensor& x, const LinearWeight& w) {
  return !at::GradMode::is_enabled() && x.numel() <= kSkinnyRows * x.size(-1) && w.float8 == Float8::off &&
         !is_computed_again();
}
bool is_skinny(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  return std::all_of(weights.begin(), weights.end(), [&](const LinearWeight& w) { return is_skinny(x, w); });
}

}  // namespace

namespace reference {

at::Tensor linear(const at::Tensor& x, const LinearWeight& w) {
  at::Tensor y = at::linear(x, w.weight_OI, w.bias_O);
  for (const LowRank& low : w.low_ranks) y = y + at::linear(at::linear(x, low.a_RI) * low.scale, low.b_OR);
  return y;
}

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation, const LinearWeight& w) {
  return reference::linear(reference::gated(gate, up, activation), w);
}

}  // namespace reference

std::vector<at::Tensor> linears(const at::Tensor& x, const std::vector<LinearWeight>& weights) {
  HONE_ASSERT(!weights.empty());
  const bool ours = takes(x, weights);
  if (ours && at::GradMode::is_enabled()) return with_graph({x}, weights);
  std::vector<at::Tensor> made;
  if (ours && is_skinny(x, weights)) {
    for (const at::Tensor& y_NO : skinny_with_ranks(rows_of(x), weights)) made.push_back(shaped_like(y_NO, x));
    return made;
  }
  Source source(ours ? rows_of(x) : x);
  for (const LinearWeight& w : weights)
    made.push_back(ours ? shaped_like(forward_one(source, w.weight_OI, w.bias_O, w.float8,
                                                  added_by(w.low_ranks, source.x_NI)), x)
                        : reference::linear(x, w));
  return made;
}

at::Tensor linear(const at::Tensor& x, const LinearWeight& weight) { return linears(x, {weight})[0]; }

namespace {

bool takes_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I) {
  return backend_for({x, norm_I}) && fits_rows(x, norm_I) &&
         (!residual.defined() || (backend_for({x, residual}) && x.sizes() == residual.sizes()));
}
// Whether a table makes the norm of few rows together with their products: in one go, and the same bits.
bool norms_few(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I,
               const std::vector<LinearWeight>& weights) {
  const auto plain = [](const LinearWeight& w) { return w.low_ranks.empty(); };
  return is_skinny(x, weights) && takes(x, weights) && std::all_of(weights.begin(), weights.end(), plain) &&
         backend_of(x).products.norm_skinny && takes_norm(x, residual, norm_I);
}
NormedRows normed_rows(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, RmsNormForm form) {
  return {rows_of(x), residual.defined() ? rows_of(residual) : residual, norm_I, form};
}

}  // namespace

NormedProducts norm_linears(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, RmsNormForm form,
                            const std::vector<LinearWeight>& weights, GradientSum* norm_sum) {
  if (norms_few(x, residual, norm_I, weights)) {
    NormedProducts few = backend_of(x).products.norm_skinny(normed_rows(x, residual, norm_I, form), weights);
    for (at::Tensor& y : few.products) y = shaped_like(y, x);
    return {few.sum.view(x.sizes()), std::move(few.products)};
  }
  if (!at::GradMode::is_enabled() || !takes(x, weights) || !takes_norm(x, residual, norm_I)) {
    const AddNorm norm = add_rms_norm(x, residual, norm_I, form, norm_sum);
    return {norm.sum, linears(norm.normed, weights)};
  }
  variable_list tensors{x};
  if (residual.defined()) tensors.push_back(residual);
  tensors.push_back(norm_I);
  NormedProducts made{x, with_graph(std::move(tensors), weights, form, norm_sum)};
  made.sum = made.products.back(), made.products.pop_back();
  return made;
}

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation activation, const LinearWeight& w) {
  if (!takes(gate, w) || gate.sizes() != up.sizes()) return reference::gated_linear(gate, up, activation, w);
  if (!at::GradMode::is_enabled()) return linear(gated(gate, up, activation), w);
  variable_list tensors{gate, up, w.weight_OI};
  if (w.bias_O.defined()) tensors.push_back(w.bias_O);
  GatedLinearFunction::Call call{static_cast<std::int64_t>(activation), to_number(w.sum), to_number(w.bias_sum),
                                 w.bias_O.defined(), w.float8};
  call.ranks.append(w.low_ranks, 0, tensors);
  return GatedLinearFunction::apply(at::TensorList(tensors), call);
}

at::Tensor gated_mlp(const at::Tensor& x, const GatedMlpWeights& w, Activation activation) {
  if (is_skinny(x, {w.gate, w.up}) && takes(x, {w.gate, w.up}) && w.gate.low_ranks.empty() && w.up.low_ranks.empty())
    return linear(shaped_like(skinny_gated(rows_of(x), w.gate, w.up, activation), x), w.down);
  const auto both = linears(x, {w.gate, w.up});
  return gated_linear(both[0], both[1], activation, w.down);
}

NormGatedMlp norm_gated_mlp(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& norm_I, RmsNormForm form,
                            const GatedMlpWeights& w, Activation activation, GradientSum* norm_sum) {
  if (norms_few(x, residual, norm_I, {w.gate, w.up})) {
    const NormedProducts few =
        backend_of(x).products.norm_skinny_gated(normed_rows(x, residual, norm_I, form), w.gate, w.up, activation);
    return {few.sum.view(x.sizes()), linear(shaped_like(few.products[0], x), w.down)};
  }
  if (is_skinny(x, {w.gate, w.up})) {
    const AddNorm norm = add_rms_norm(x, residual, norm_I, form, norm_sum);
    return {norm.sum, gated_mlp(norm.normed, w, activation)};
  }
  const auto [sum, both] = norm_linears(x, residual, norm_I, form, {w.gate, w.up}, norm_sum);
  return {sum, gated_linear(both[0], both[1], activation, w.down)};
}

}  // namespace hone::ops
