// Linear, Embedding, GatedMlp.
#include "hone/layers.h"

#include <ATen/ATen.h>

#include "ops/embedding.h"
#include "ops/gated.h"
#include "ops/linear.h"

namespace hone::nn {

namespace {
constexpr Init kZeros{.kind = Init::Kind::zeros, .std = 0};
constexpr Init normal(double std) { return {.kind = Init::Kind::normal, .std = std}; }
}  // namespace

Tensor adapt(Tensor y, const Tensor& x, const Weight& weight, const Pass& pass) {
  return weight.adapter() && pass.adapters ? weight.adapter()->add(y, x, pass) : y;
}

Linear::Linear(std::int64_t in, std::int64_t out, Options options)
    : weight(parameter("weight", {out, in}, normal(options.std))),
      bias(options.bias ? &parameter("bias", {out}, kZeros, /*decays=*/false) : nullptr) {}

Tensor Linear::operator()(const Tensor& x, const Pass& pass) const {
  return adapt(ops::linear(x, with_bias()), x, weight, pass);
}

ops::LinearWeight Linear::with_bias() const {
  return {weight.use(), bias ? bias->use() : Tensor(), weight.gradient_sum(), bias ? bias->gradient_sum() : nullptr};
}

std::vector<Tensor> linears(const Input& x, std::initializer_list<const Linear*> linears, const Pass& pass) {
  std::vector<ops::LinearWeight> weights;
  bool adapted = false;
  for (const Linear* linear : linears) {
    weights.push_back(linear->with_bias());
    adapted |= pass.adapters && linear->weight.adapter();
  }
  if (!adapted) return x.linears(weights);
  const Tensor value = x.value();  // adapters read it, too
  std::vector<Tensor> made = ops::linears(value, weights);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = adapt(made[i], value, linears.begin()[i]->weight, pass);
  return made;
}

Embedding::Embedding(std::int64_t rows, std::int64_t width, double std, std::int64_t no_gradient_id)
    : weight(parameter("weight", {rows, width}, normal(std))), no_gradient_id_(no_gradient_id) {}

Tensor Embedding::operator()(const Tensor& ids, const Pass& pass) const {
  return adapt(ops::embedding(weight.use(), ids, no_gradient_id_, weight.gradient_sum()), ids, weight, pass);
}

GatedMlp::GatedMlp(const Options& o)
    : activation_(o.activation),
      gate_(child<Linear>("gate_proj", o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      up_(child<Linear>("up_proj", o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      down_(child<Linear>("down_proj", o.inner, o.hidden, Linear::Options{o.bias, o.std})) {}

Tensor GatedMlp::operator()(const Input& x, const Pass& pass) const {
  if (!pass.adapters || !has_adapters()) return x.gated_mlp(weights(), activation_);
  const std::vector<Tensor> both = linears(x, {&gate_, &up_}, pass);
  return down_(ops::gated(both[0], both[1], activation_), pass);
}

ops::GatedMlpWeights GatedMlp::weights() const {
  return {gate_.with_bias(), up_.with_bias(), down_.with_bias()};
}

}  // namespace hone::nn
