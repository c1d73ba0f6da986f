// Linear, Embedding, GatedMlp.
#include "hone/layers.h"

#include <ATen/ATen.h>

#include "ops/embedding.h"
#include "ops/linear.h"

namespace hone::nn {

namespace {
constexpr Init kZeros{.kind = Init::Kind::zeros, .std = 0};
constexpr Init normal(double std) { return {.kind = Init::Kind::normal, .std = std}; }
}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, Options options)
    : weight(parameter("weight", {out, in}, normal(options.std))),
      bias(options.bias ? &parameter("bias", {out}, kZeros, /*decays=*/false) : nullptr) {}

Tensor Linear::operator()(const Tensor& x) const { return ops::linear(x, with_bias()); }

ops::LinearWeight Linear::with_bias() const {
  return {weight.use(), bias ? bias->use() : Tensor(), weight.gradient_sum(), bias ? bias->gradient_sum() : nullptr};
}

std::vector<Tensor> linears(const Input& x, std::initializer_list<const Linear*> linears) {
  std::vector<ops::LinearWeight> weights;
  for (const Linear* linear : linears) weights.push_back(linear->with_bias());
  return x.linears(weights);
}

Embedding::Embedding(std::int64_t rows, std::int64_t width, double std, std::int64_t no_gradient_id)
    : weight(parameter("weight", {rows, width}, normal(std))), no_gradient_id_(no_gradient_id) {}

Tensor Embedding::operator()(const Tensor& ids) const {
  return ops::embedding(weight.use(), ids, no_gradient_id_, weight.gradient_sum());
}

GatedMlp::GatedMlp(const Options& o)
    : activation_(o.activation),
      gate_(child<Linear>("gate_proj", o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      up_(child<Linear>("up_proj", o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      down_(child<Linear>("down_proj", o.inner, o.hidden, Linear::Options{o.bias, o.std})) {}

Tensor GatedMlp::operator()(const Input& x) const { return x.gated_mlp(weights(), activation_); }

ops::GatedMlpWeights GatedMlp::weights() const {
  return {gate_.with_bias(), up_.with_bias(), down_.with_bias()};
}

}  // namespace hone::nn
