// Linear, Embedding, GatedMlp.
#include "hone/layers.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "nn/slices.h"
#include "ops/embedding.h"
#include "ops/fake_quantize.h"
#include "ops/gated.h"
#include "ops/linear.h"

namespace hone::nn {

namespace {
constexpr Init normal(double std) { return {.kind = Init::Kind::normal, .std = std}; }

Grid input_grid(const Linear& linear) {
  const FakeQuantized& grids = linear.weight.fake_quantized();
  return grids.weight == Grid::none ? Grid::none : grids.input;
}
Tensor rounded_input(const Tensor& x, Grid grid) { return grid == Grid::none ? x : ops::fake_quantized_rows(x, grid); }
}  // namespace

Tensor adapt(Tensor y, const Tensor& x, const Weight& weight, const Pass& pass) {
  const Adapter* adapter = pass.adapter_of(weight);
  return adapter ? adapter->add(y, x, pass) : y;
}

Linear::Linear(std::int64_t in, std::int64_t out, Options options)
    : weight(parameter("weight", {out, in}, normal(options.std))),
      bias(options.bias ? &parameter("bias", {out}, options.fresh_bias, /*decays=*/false) : nullptr) {
  weight.set_use(WeightUse::product);
  constexpr std::int64_t kSizes = 16;  // what the hardware's products in fp8 take
  weight.set_takes_float8(in % kSizes == 0 && out % kSizes == 0);
}

namespace {

ops::LinearWeight without_bias(ops::LinearWeight weight) {
  weight.bias_O = Tensor(), weight.bias_sum = nullptr;
  return weight;
}

// Of a sum that each rank has a part of: this rank's tokens, with the bias, which is added once.
Tensor summed(const Tensor& y, const Linear& linear, const Context& ranks) {
  const Tensor own = to_own(y, ranks);
  return linear.bias ? own + linear.bias->use() : own;
}

// By a slice of the outputs all ranks' tokens of these are made, by one of the inputs this rank's tokens of such.
Tensor sliced(const Tensor& x, const Linear& linear, const Context& ranks, const Pass& pass) {
  const ops::LinearWeight own = linear.with_adapter(pass);
  if (linear.weight.tensor_cut().dimension == 0) return ops::linear(to_all(x, ranks), own);
  return summed(ops::linear(x, without_bias(own)), linear, ranks);
}

}  // namespace

Tensor Linear::operator()(const Tensor& x, const Pass& pass) const {
  if (const Context* ranks = sharing(weight, pass)) return sliced(x, *this, *ranks, pass);
  const ops::LinearWeight own = with_adapter(pass);
  Tensor y = ops::linear(rounded_input(x, input_grid(*this)), own);
  return own.low_ranks.empty() ? adapt(std::move(y), x, weight, pass) : y;
}

ops::LinearWeight Linear::with_bias() const {
  ops::LinearWeight own{weight.use(), bias ? bias->use() : Tensor(), weight.gradient_sum(),
                        bias ? bias->gradient_sum() : nullptr};
  own.quantized = weight.quantized();
  if (const FakeQuantized& grids = weight.fake_quantized(); grids.weight != Grid::none) {
    own.weight_OI = ops::fake_quantized(own.weight_OI, grids.weight, grids.group_size, own.sum);
    own.sum = nullptr;  // it is the rounding's
  }
  return own;
}

ops::LinearWeight Linear::with_adapter(const Pass& pass) const {
  ops::LinearWeight own = with_bias();
  if (const Adapter* adapter = pass.adapter_of(weight)) own.low_ranks = adapter->low_ranks(pass);
  if (weight.takes_float8()) own.float8 = pass.float8;
  return own;
}

bool Linear::is_made_apart(const Pass& pass) const {
  const Adapter* adapter = pass.adapter_of(weight);
  return adapter && adapter->low_ranks(pass).empty();
}

namespace {

// Of what each of them rounds; equal layers share it.
std::vector<Tensor> rounded_linears(const Tensor& x, std::initializer_list<const Linear*> linears, const Pass& pass) {
  std::vector<ops::LinearWeight> weights;
  std::vector<Tensor> made;
  const Grid grid = input_grid(**linears.begin());
  bool alike = true;
  for (const Linear* linear : linears) alike &= input_grid(*linear) == grid && !pass.adapter_of(linear->weight);
  for (const Linear* linear : linears)
    if (alike)
      weights.push_back(linear->with_bias());
    else
      made.push_back((*linear)(x, pass));
  return alike ? ops::linears(rounded_input(x, grid), weights) : made;
}

}  // namespace

std::vector<Tensor> linears(const Input& x, std::initializer_list<const Linear*> linears, const Pass& pass) {
  std::vector<ops::LinearWeight> weights;
  bool apart = false;
  const auto rounds = [](const Linear* linear) { return input_grid(*linear) != Grid::none; };
  if (std::any_of(linears.begin(), linears.end(), rounds)) return rounded_linears(x.value(), linears, pass);
  for (const Linear* linear : linears) {
    weights.push_back(linear->with_adapter(pass));
    apart |= weights.back().low_ranks.empty() && pass.adapter_of(linear->weight);
  }
  if (const Context* ranks = sharing((*linears.begin())->weight, pass))
    return ops::linears(to_all(x.value(), *ranks), weights);
  if (!apart) return x.linears(weights);
  const Tensor value = x.value();  // adapters read it, too
  std::vector<Tensor> made = ops::linears(value, weights);
  for (std::size_t i = 0; i < made.size(); ++i)
    if (weights[i].low_ranks.empty()) made[i] = adapt(made[i], value, linears.begin()[i]->weight, pass);
  return made;
}

Embedding::Embedding(std::int64_t rows, std::int64_t width, double std, std::int64_t no_gradient_id)
    : weight(parameter("weight", {rows, width}, normal(std))), no_gradient_id_(no_gradient_id) {
  weight.set_use(WeightUse::table);
  weight.set_tensor_cut({.dimension = 0, .pieces = rows});
}

namespace {

// Each rank looks up those of all ranks' ids that its rows are for.
Tensor looked_up(const Tensor& ids, const Weight& weight, std::int64_t no_gradient_id, const Context& ranks) {
  const std::int64_t first = weight.layout().offset[0], rows = weight.layout().shape[0];
  const Tensor ids_M = ranks.gather_values(ids.flatten());
  ops::check_ids(ids_M, weight.shape()[0]);
  const Tensor own_M = ids_M - first;
  const Tensor has_M = own_M.ge(0).bitwise_and(own_M.lt(rows));
  const Tensor row_M = own_M.masked_fill(has_M.bitwise_not(), 0);
  const std::int64_t no_gradient = no_gradient_id < first || no_gradient_id >= first + rows ? -1
                                                                                          : no_gradient_id - first;
  const Tensor rows_MD = ops::embedding(weight.use(), row_M, no_gradient, weight.gradient_sum());
  const Tensor y_ND = ranks.sum_to_tokens(rows_MD.masked_fill(has_M.bitwise_not().unsqueeze(1), 0));
  std::vector<std::int64_t> sizes = ids.sizes().vec();
  sizes.push_back(y_ND.size(1));
  return y_ND.view(sizes);
}

}  // namespace

Tensor Embedding::operator()(const Tensor& ids, const Pass& pass) const {
  if (const Context* ranks = sharing(weight, pass)) return looked_up(ids, weight, no_gradient_id_, *ranks);
  return adapt(ops::embedding(weight.use(), ids, no_gradient_id_, weight.gradient_sum()), ids, weight, pass);
}

void cut_outputs(const Linear& linear, std::int64_t pieces) {
  linear.weight.set_tensor_cut({.dimension = 0, .pieces = pieces});
  if (linear.bias) linear.bias->set_tensor_cut({.dimension = 0, .pieces = pieces});
}

void cut_inputs(const Linear& linear, std::int64_t pieces) {
  linear.weight.set_tensor_cut({.dimension = 1, .pieces = pieces});
}

GatedMlp::GatedMlp(const Options& o)
    : activation_(o.activation),
      gate_(child<Linear>(o.gate, o.hidden, o.inner, Linear::Options{o.bias, o.gate_std.value_or(o.std)})),
      up_(child<Linear>(o.up, o.hidden, o.inner, Linear::Options{o.bias, o.std})),
      down_(child<Linear>(o.down, o.inner, o.hidden, Linear::Options{o.bias, o.down_std.value_or(o.std)})) {
  for (const Linear* linear : {&gate_, &up_}) cut_outputs(*linear, o.inner);
  cut_inputs(down_, o.inner);
}

Tensor GatedMlp::operator()(const Input& x, const Pass& pass) const {
  if (const Context* ranks = sharing(gate_.weight, pass)) {
    ops::GatedMlpWeights own = with_adapters(pass);
    own.down = without_bias(std::move(own.down));
    return summed(ops::gated_mlp(to_all(x.value(), *ranks), own, activation_), down_, *ranks);
  }
  const bool rounds = input_grid(gate_) != Grid::none || input_grid(down_) != Grid::none;
  const bool apart =
      rounds || gate_.is_made_apart(pass) || up_.is_made_apart(pass) || down_.is_made_apart(pass);
  if (!apart) return x.gated_mlp(with_adapters(pass), activation_);
  const std::vector<Tensor> both = linears(x, {&gate_, &up_}, pass);
  return down_(ops::gated(both[0], both[1], activation_), pass);
}

ops::GatedMlpWeights GatedMlp::with_adapters(const Pass& pass) const {
  return {gate_.with_adapter(pass), up_.with_adapter(pass), down_.with_adapter(pass)};
}

ops::GatedMlpWeights GatedMlp::weights() const { return {gate_.with_bias(), up_.with_bias(), down_.with_bias()}; }

}  // namespace hone::nn
