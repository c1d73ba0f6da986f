// The blocks of Qwen3-Next and Qwen3.5, and what models of them share: most layers have a memory that each token
// corrects (gated delta net; Yang et al., 2024, arXiv:2412.06464) behind a short convolution, every fourth one gated
// attention; behind either an MLP, or routed experts with one besides that every token goes to.
//
// Letters in tensor names: N tokens, D hidden, C convolved channels; of attention H query heads, G key/value heads, K
// head size; of memories G heads of queries and keys, H heads of values, K and V their sizes.
#pragma once

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <string>
#include <vector>

#include "hone/memory_layers.h"
#include "models/hybrid_model.h"
#include "models/qwen3_5_config.h"
#include "nn/experts.h"
#include "ops/gated.h"

namespace hone::models {

// Attention whose result is gated by what q_proj makes beside each head's query.
class GatedAttention final : public Module {
 public:
  GatedAttention(const Qwen35Shape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attend_(shape, ropes, layer) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto query_and_gate = made[0].view({-1, s.heads, 2 * s.head_size}).chunk(2, -1);
    const auto heads = [&](const Tensor& x) { return x.view({-1, s.kv_heads, s.head_size}); };
    const Tensor y_NHK = attend_(q_norm(query_and_gate[0].contiguous()), k_norm(heads(made[1])), heads(made[2]), pass);
    return o_proj((y_NHK * query_and_gate[1].sigmoid()).flatten(1).unsqueeze(0), pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.q = q_proj.with_adapter(pass), layer.k = k_proj.with_adapter(pass), layer.v = v_proj.with_adapter(pass);
    layer.o = o_proj.with_adapter(pass), layer.is_gated = true;
    layer.q_norm = q_norm.weight.use(), layer.k_norm = k_norm.weight.use();
    layer.window = attend_.window(), layer.rope = attend_.rope();
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
  }
  const Qwen35Shape& s;
  LayerAttention attend_;
  nn::Linear& q_proj = projection("q_proj", s.hidden, 2 * s.heads * s.head_size, s.qkv_bias);
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& o_proj = projection("o_proj", s.heads* s.head_size, s.hidden, s.output_bias);
  nn::RmsNorm& q_norm = child<nn::RmsNorm>("q_norm", s.head_size, s.norm());
  nn::RmsNorm& k_norm = child<nn::RmsNorm>("k_norm", s.head_size, s.norm());
};

class GatedDeltaNet final : public Module {
 public:
  explicit GatedDeltaNet(const Qwen35Shape& shape) : s(shape) {
    const auto projection = [&](const char* name, std::int64_t out) {
      products_.push_back(&child<nn::Linear>(name, s.hidden, out, nn::Linear::Options{.std = s.std}));
    };
    if (s.joined) {
      projection("in_proj_qkvz", s.convolved() + s.values()), projection("in_proj_ba", 2 * s.value_heads);
      products_[1]->weight.set_takes_float8(false);
    } else {
      projection("in_proj_qkv", s.convolved()), projection("in_proj_z", s.values());
      projection("in_proj_b", s.value_heads), projection("in_proj_a", s.value_heads);
      for (const std::size_t gate : {2, 3}) products_[gate]->weight.set_takes_float8(false);
    }
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const Made made = s.joined ? by_key_heads(x_1ND, pass) : by_kind(x_1ND, pass);
    const auto parts = conv1d(made.mixed_NC, pass).split_with_sizes({s.keys(), s.keys(), s.values()}, -1);
    const Tensor y_NHV =
        nn::gated_delta(heads(parts[0], s.key_heads), heads(parts[1], s.key_heads), heads(parts[2], s.value_heads),
                        decay(made.a_NH), widened(made.b_NH).sigmoid(), pass);
    return out_proj(ops::gated(made.z_NHV, norm(y_NHV), ops::Activation::silu).flatten(1).unsqueeze(0), pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    nn::MemoryForm form{.kind = nn::MemoryForm::Kind::delta, .out = out_proj.with_adapter(pass)};
    for (const nn::Linear* product : products_) form.in.push_back(product->with_adapter(pass));
    form.convolution = {conv1d.weight.use().squeeze(1), Tensor(), /*silu=*/true};
    form.groups = s.key_heads, form.heads = s.value_heads;
    form.key_size = s.key_size, form.value_size = s.value_size;
    form.rate_H = widened(A_log.use()).exp(), form.bias_H = widened(dt_bias.use()).contiguous();
    form.norm = norm.weight.use(), form.eps = s.eps;
    s.joined ? place_by_key_heads(form) : place_by_kind(form);
    layer.memory = std::make_shared<const nn::MemoryForm>(std::move(form));
  }

 private:
  // What goes into the convolution, the result's gate, and the gates of memories.
  struct Made {
    Tensor mixed_NC, z_NHV, b_NH, a_NH;
  };
  static Tensor heads(const Tensor& x, std::int64_t count) { return x.view({-1, count, x.size(-1) / count}); }
  Made by_kind(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {products_[0], products_[1], products_[2], products_[3]}, pass);
    return {made[0].squeeze(0), heads(made[1], s.value_heads), made[2].squeeze(0), made[3].squeeze(0)};
  }
  // Each head of keys with what belongs to it.
  Made by_key_heads(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {products_[0], products_[1]}, pass);
    const std::int64_t group = s.value_heads / s.key_heads, values = group * s.value_size;
    const auto qkvz = heads(made[0], s.key_heads).split_with_sizes({s.key_size, s.key_size, values, values}, -1);
    const auto ba = heads(made[1], s.key_heads).split(group, -1);
    return {at::cat({qkvz[0].flatten(1), qkvz[1].flatten(1), qkvz[2].flatten(1)}, -1),
            qkvz[3].reshape({-1, s.value_heads, s.value_size}), ba[0].flatten(1), ba[1].flatten(1)};
  }

  // Where what the products make lies side by side.
  void place_by_kind(nn::MemoryForm& form) const {
    const std::int64_t group = s.value_heads / s.key_heads, gates = s.convolved() + s.values();
    form.convolved = {{.column = 0, .channel = 0, .count = s.convolved()}};
    form.gate = {s.convolved(), group * s.value_size};
    form.step = {gates, group}, form.decay = {gates + s.value_heads, group};
  }
  void place_by_key_heads(nn::MemoryForm& form) const {
    const std::int64_t group = s.value_heads / s.key_heads, values = group * s.value_size,
                       all = 2 * (s.key_size + values), gates = s.key_heads * all;
    for (std::int64_t head = 0; head < s.key_heads; ++head) {
      const std::int64_t column = head * all;
      form.convolved.push_back({column, head * s.key_size, s.key_size});
      form.convolved.push_back({column + s.key_size, s.keys() + head * s.key_size, s.key_size});
      form.convolved.push_back({column + 2 * s.key_size, 2 * s.keys() + head * values, values});
    }
    form.gate = {2 * s.key_size + values, all};
    form.step = {gates, 2 * group}, form.decay = {gates + group, 2 * group};
  }

  // In fp32 at least: what goes into an exponential, or a product over the whole text.
  static Tensor widened(const Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }
  Tensor decay(const Tensor& a_NH) const {
    const Tensor rate_H = widened(A_log.use()).exp();
    return -rate_H * at::softplus(widened(a_NH) + dt_bias.use());
  }

  const Qwen35Shape& s;
  Weight& dt_bias = parameter("dt_bias", {s.value_heads}, {.kind = Init::Kind::ones}, /*decays=*/false);
  Weight& A_log = parameter("A_log", {s.value_heads}, {.kind = Init::Kind::log_uniform, .first = 0.01, .last = 16});
  nn::ShortConvolution& conv1d =
      child<nn::ShortConvolution>("conv1d", s.convolved(), s.taps, nn::ShortConvolution::Options{.std = s.std});
  nn::RmsNorm& norm = child<nn::RmsNorm>("norm", s.value_size, ops::RmsNormForm(s.eps));
  nn::Linear& out_proj = child<nn::Linear>("out_proj", s.values(), s.hidden, nn::Linear::Options{.std = s.std});
  std::vector<nn::Linear*> products_;
};

class Qwen35Block final : public nn::ResidualBlock {
 public:
  Qwen35Block(const Qwen35Shape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.remembers[layer])
      linear_attn = &child<GatedDeltaNet>("linear_attn", s);
    else
      self_attn = &child<GatedAttention>("self_attn", s, ropes, layer);
    if (s.sparse[layer])
      experts = &child<nn::RoutedMlp>("mlp", s.options(s));
    else
      mlp = &child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += linear_attn ? (*linear_attn)(input_layernorm(x), pass) : (*self_attn)(input_layernorm(x), pass);
    x += experts ? (*experts)(post_attention_layernorm(x), pass) : (*mlp)(post_attention_layernorm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    linear_attn ? linear_attn->describe(layer, pass) : self_attn->describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    experts ? experts->describe(layer, pass) : describe_mlp(*mlp, layer, pass);
    return layer;
  }

 private:
  const Qwen35Shape& s;
  const GatedDeltaNet* linear_attn = nullptr;  // one of the two
  const GatedAttention* self_attn = nullptr;
  const nn::RoutedMlp* experts = nullptr;  // likewise
  const nn::GatedMlp* mlp = nullptr;
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class Qwen35Stack : public HybridModel<Qwen35Block, Qwen35Shape> {
 public:
  using HybridModel::HybridModel;
  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) nn::balance(pass, s.experts_per_token, s.balance);
    return HybridModel::finish(x_1ND, pass);
  }
  // Layers that guess further tokens, which no model of transformers has either.
  bool is_no_weight(const std::string& tensor) const override { return tensor.starts_with("mtp."); }
};

}  // namespace hone::models
