// Linear, Embedding, RmsNorm, GatedMlp.
#include "nn/layers.h"

#include <ATen/ATen.h>

#include "ops/embedding.h"

namespace hone::nn {

namespace {
constexpr Init kOnes{.kind = Init::Kind::ones, .std = 0};
constexpr Init kZeros{.kind = Init::Kind::zeros, .std = 0};
constexpr Init normal(double std) { return {.kind = Init::Kind::normal, .std = std}; }
}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, Options options)
    : weight(parameter("weight", {out, in}, normal(options.std))),
      bias(options.bias ? &parameter("bias", {out}, kZeros, /*decays=*/false) : nullptr) {}

ops::LinearWeight Linear::with_bias() const {
  return {weight.use(), bias ? bias->use() : Tensor(), weight.gradient_sum(), bias ? bias->gradient_sum() : nullptr};
}

Embedding::Embedding(std::int64_t rows, std::int64_t width, double std, std::int64_t no_gradient_id)
    : weight(parameter("weight", {rows, width}, normal(std))), no_gradient_id_(no_gradient_id) {}

Tensor Embedding::operator()(const Tensor& ids) const {
  return ops::embedding(weight.use(), ids, no_gradient_id_, weight.gradient_sum());
}

RmsNorm::RmsNorm(std::int64_t width, double eps)
    : weight(parameter("weight", {width}, kOnes, /*decays=*/false)), eps_(eps) {}

Tensor RmsNorm::operator()(const Tensor& x) const { return ops::rms_norm(x, weight.use(), eps_, weight.gradient_sum()); }

ops::NormLinears RmsNorm::linears(const Tensor& x, const Tensor& residual,
                                  const std::vector<ops::LinearWeight>& weights) const {
  return ops::norm_linears(x, residual, weight.use(), eps_, weights, weight.gradient_sum());
}

Tensor RmsNorm::gated_mlp(const Tensor& x, const Tensor& residual, const ops::GatedMlpWeights& weights,
                          ops::Activation activation) const {
  return ops::norm_gated_mlp(x, residual, weight.use(), eps_, weights, activation, weight.gradient_sum());
}

GatedMlp::GatedMlp(const Options& o)
    : activation_(o.activation),
      gate_(child<Linear>("gate_proj", o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      up_(child<Linear>("up_proj", o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      down_(child<Linear>("down_proj", o.inner, o.hidden, Linear::Options{o.bias, o.std})) {}

Tensor GatedMlp::operator()(const Tensor& x, const Tensor& residual, const RmsNorm& norm) const {
  return norm.gated_mlp(x, residual, weights(), activation_);
}

}  // namespace hone::nn
