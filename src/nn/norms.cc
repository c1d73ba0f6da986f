// Norms and the residual stream.
#include "hone/layers.h"

#include <ATen/ATen.h>

#include <utility>

#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace hone::nn {
namespace {

constexpr Init kOnes{.kind = Init::Kind::ones, .std = 0};
constexpr Init kZeros{.kind = Init::Kind::zeros, .std = 0};

Tensor maybe(const Weight* weight) { return weight ? weight->use() : Tensor(); }

}  // namespace

Residual& Residual::operator+=(Tensor y) {
  sum();
  added_ = std::move(y);
  ++changes_;
  return *this;
}

const Tensor& Residual::sum() {
  if (added_.defined()) x_ = x_ + std::exchange(added_, Tensor());
  return x_;
}

Input::Input(const Norm& norm, Residual& residual)
    : x_(residual.x_), added_(residual.added_), norm_(&norm), residual_(&residual), changes_(residual.changes_) {}

Tensor ResidualBlock::forward(const Tensor& x_BTD, Pass& pass) const {
  Residual x(x_BTD);
  add_to(x, pass);
  return x.sum();
}

// The sum was made on the way: nobody makes it again.
void Input::keep(const Tensor& sum) const {
  if (residual_->changes_ == changes_) residual_->x_ = sum, residual_->added_ = Tensor();
}

Tensor Input::value() const {
  if (!norm_) return x_;
  ops::AddNorm made = norm_->add(x_, added_);
  keep(made.sum);
  return made.normed;
}

std::vector<Tensor> Input::linears(const std::vector<ops::LinearWeight>& weights) const {
  if (!norm_) return ops::linears(x_, weights);
  ops::NormedProducts made = norm_->linears(x_, added_, weights);
  keep(made.sum);
  return std::move(made.products);
}

Tensor Input::gated_mlp(const ops::GatedMlpWeights& weights, ops::Activation activation) const {
  if (!norm_) return ops::gated_mlp(x_, weights, activation);
  ops::NormGatedMlp made = norm_->gated_mlp(x_, added_, weights, activation);
  keep(made.sum);
  return made.y;
}

ops::NormedProducts Norm::linears(const Tensor& x, const Tensor& residual,
                                  const std::vector<ops::LinearWeight>& weights) const {
  const ops::AddNorm made = add(x, residual);
  return {made.sum, ops::linears(made.normed, weights)};
}

ops::NormGatedMlp Norm::gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                                  ops::Activation activation) const {
  const ops::AddNorm made = add(x, residual);
  return {made.sum, ops::gated_mlp(made.normed, weights, activation)};
}

RmsNorm::RmsNorm(std::int64_t width, ops::RmsNormForm form)
    : weight(parameter("weight", {width}, form.factor == ops::RmsFactor::one_plus_weight ? kZeros : kOnes,
                       /*decays=*/false)),
      form_(form) {}

Tensor RmsNorm::operator()(const Tensor& x) const {
  return ops::rms_norm(x, weight.use(), form_, weight.gradient_sum());
}

ops::AddNorm RmsNorm::add(const Tensor& x, const Tensor& residual) const {
  return ops::add_rms_norm(x, residual, weight.use(), form_, weight.gradient_sum());
}

ops::NormedProducts RmsNorm::linears(const Tensor& x, const Tensor& residual,
                                     const std::vector<ops::LinearWeight>& weights) const {
  return ops::norm_linears(x, residual, weight.use(), form_, weights, weight.gradient_sum());
}

ops::NormGatedMlp RmsNorm::gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                                     ops::Activation activation) const {
  return ops::norm_gated_mlp(x, residual, weight.use(), form_, weights, activation, weight.gradient_sum());
}

LayerNorm::LayerNorm(std::int64_t width, double eps, bool with_bias)
    : weight(parameter("weight", {width}, kOnes, /*decays=*/false)),
      bias(with_bias ? &parameter("bias", {width}, kZeros, /*decays=*/false) : nullptr),
      eps_(eps) {}

ops::LayerNormSums LayerNorm::sums() const { return {weight.gradient_sum(), bias ? bias->gradient_sum() : nullptr}; }

Tensor LayerNorm::operator()(const Tensor& x) const {
  return ops::layer_norm(x, weight.use(), maybe(bias), eps_, sums());
}

ops::AddNorm LayerNorm::add(const Tensor& x, const Tensor& residual) const {
  return ops::add_layer_norm(x, residual, weight.use(), maybe(bias), eps_, sums());
}

}  // namespace hone::nn
