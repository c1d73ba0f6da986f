// What Gemma 4's models of texts, and those that read pictures, too, share (2026): Gemma 3's norms on both sides, heads
// and rotations that differ by kind of layer, last layers that attend to the keys and values of earlier ones, a vector
// that each token brings to each layer, and in some models routed experts beside the MLP.
//
// Letters in tensor names: B batch, T time, N tokens, D hidden, L layers, P width of what a token brings to a layer; H
// query heads, G key/value heads, K head size.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/gemma4_config.h"
#include "models/gemma4_experts.h"
#include "models/layer_of.h"
#include "models/llama_model.h"
#include "nn/plan.h"
#include "nn/shared_keys.h"
#include "ops/gated.h"
#include "ops/rms_norm.h"

namespace hone::models {

class Gemma4Attention final : public Module {
 public:
  Gemma4Attention(const Gemma4Shape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), layer_(layer), size_(s.head_size_of(layer)), rope_(*ropes.of(layer)) {
    if (s.shares(layer)) return;
    const std::int64_t keys = s.kv_heads_of(layer) * size_;
    k_proj = &projection("k_proj", s.hidden, keys, s.qkv_bias);
    if (!s.values_of_keys || !s.is_global(layer)) v_proj = &projection("v_proj", s.hidden, keys, s.qkv_bias);
    k_norm = &child<nn::RmsNorm>("k_norm", size_, s.norm());
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    return o_proj(attend(x_1ND, pass).flatten(1).unsqueeze(0), pass);
  }

 private:
  Tensor attend(const nn::Input& x_1ND, Pass& pass) const {
    const ops::AttentionOptions options{
        .scale = s.attention_scale, .mask = ops::Mask::causal(s.windows[layer_]), .dropout = s.attention_dropout};
    std::vector<Tensor> made = products(x_1ND, pass);
    const Tensor q_NHK = q_norm(heads(made[0]));
    const ops::RopeTable& table = pass.plan().rope(rope_, q_NHK);
    if (s.shares(layer_)) return nn::attend_again(q_NHK, s.keys_of[layer_], table, pass, options);
    const Tensor k_NGK = (*k_norm)(heads(made[1])), v_NGK = normed(heads(made.back()));
    return s.is_shared(layer_) ? nn::attend_and_leave(q_NHK, k_NGK, v_NGK, table, pass, options)
                               : nn::attend_rotated(q_NHK, k_NGK, v_NGK, table, pass, options);
  }

  // Of queries, of keys and of values, as far as there are any. Where values have none, what keys are made of is
  // theirs.
  std::vector<Tensor> products(const nn::Input& x_1ND, Pass& pass) const {
    if (!k_proj) return nn::linears(x_1ND, {&q_proj}, pass);
    return v_proj ? nn::linears(x_1ND, {&q_proj, k_proj, v_proj}, pass) : nn::linears(x_1ND, {&q_proj, k_proj}, pass);
  }
  Tensor heads(const Tensor& x) const { return x.view({-1, x.size(-1) / size_, size_}); }
  Tensor normed(const Tensor& v_NGK) const {
    return ops::rms_norm(v_NGK, at::ones({size_}, v_NGK.options()), s.norm());
  }
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
  }

  const Gemma4Shape& s;
  std::int64_t layer_, size_;
  const nn::Rope& rope_;
  nn::Linear& q_proj = projection("q_proj", s.hidden, s.heads* size_, s.qkv_bias);
  nn::Linear& o_proj = projection("o_proj", s.heads* size_, s.hidden, s.output_bias);
  nn::RmsNorm& q_norm = child<nn::RmsNorm>("q_norm", size_, s.norm());
  nn::Linear *k_proj = nullptr, *v_proj = nullptr;  // null: none
  nn::RmsNorm* k_norm = nullptr;
};

// What a layer makes of what its tokens bring to it.
inline std::string input_of(std::int64_t layer) { return fmt::format("layers.{}.input", layer); }

class Gemma4Block final : public nn::ResidualBlock {
 public:
  Gemma4Block(const Gemma4Shape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape),
        self_attn(child<Gemma4Attention>("self_attn", s, ropes, layer)),
        mlp(child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner_of(layer), s.activation,
                                                             /*bias=*/false, s.std})) {
    if (s.experts > 0) experts = &child<Gemma4Experts>("", s);
    if (s.per_layer == 0) return;
    per_layer_input_gate = &projection("per_layer_input_gate", s.hidden, s.per_layer);
    per_layer_projection = &projection("per_layer_projection", s.per_layer, s.hidden);
    post_per_layer_input_norm = &child<nn::RmsNorm>("post_per_layer_input_norm", s.hidden, s.norm());
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += post_attention_layernorm(self_attn(input_layernorm(x), pass));
    const Tensor dense_1ND = mlp(pre_feedforward_layernorm(x), pass);
    x += post_feedforward_layernorm(experts ? experts->beside(dense_1ND, x.sum(), pass) : dense_1ND);
    if (s.per_layer > 0) x += post_per_layer_input_norm->operator()(of_input(x.sum(), pass));
    const Tensor& sum_1ND = x.sum();
    x = nn::Residual(sum_1ND * layer_scalar.use().to(sum_1ND.scalar_type()));
  }

 private:
  Tensor of_input(const Tensor& x_1ND, Pass& pass) const {
    const Tensor& input_1NP = nn::left(pass, input_of(pass.layer));
    return (*per_layer_projection)(ops::gated((*per_layer_input_gate)(x_1ND, pass), input_1NP, s.activation), pass);
  }
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.std = s.std});
  }
  nn::RmsNorm& norm(const char* name) { return child<nn::RmsNorm>(name, s.hidden, s.norm()); }

  const Gemma4Shape& s;
  Gemma4Attention& self_attn;
  nn::GatedMlp& mlp;
  nn::RmsNorm& input_layernorm = norm("input_layernorm");
  nn::RmsNorm& post_attention_layernorm = norm("post_attention_layernorm");
  nn::RmsNorm& pre_feedforward_layernorm = norm("pre_feedforward_layernorm");
  nn::RmsNorm& post_feedforward_layernorm = norm("post_feedforward_layernorm");
  Weight& layer_scalar =
      buffer("layer_scalar", {1}, {.kind = Init::Kind::ones}, [](const Tensor& value, const Tensor&) { return value; });
  const Gemma4Experts* experts = nullptr;  // null: none
  nn::Linear *per_layer_input_gate = nullptr, *per_layer_projection = nullptr;
  nn::RmsNorm* post_per_layer_input_norm = nullptr;
};

// In the type of the table, as these models were trained.
inline double rounded(double scale, const Weight& table) {
  return host::own_number(at::scalar_tensor(scale, at::kDouble).to(table.use().scalar_type()));
}

// What tokens bring to each layer: a row of a table of their own, and a product of their embedding.
class Gemma4Inputs final : public Module {
 public:
  explicit Gemma4Inputs(const Gemma4Shape& shape) : s(shape) {}

  void leave(const Tensor& ids_BT, const Tensor& x_BTD, Pass& pass) const {
    nn::Plan& plan = pass.plan();
    const auto by_layer = [&](const Tensor& x) { return x.unflatten(-1, {s.layers, s.per_layer}); };
    const Tensor ids_1N = plan.to_flat(ids_BT.unsqueeze(-1)).squeeze(-1);
    const double scale = rounded(std::sqrt(static_cast<double>(s.per_layer)), embed_tokens_per_layer.weight);
    const Tensor own_1NLP = by_layer(embed_tokens_per_layer(ids_1N, pass) * scale);
    const Tensor made =
        per_layer_model_projection(plan.to_flat(x_BTD), pass) / std::sqrt(static_cast<double>(s.hidden));
    const Tensor all_1NLP = (per_layer_projection_norm(by_layer(made)) + own_1NLP) * std::sqrt(0.5);
    const auto each_1NP = all_1NLP.movedim(2, 0).contiguous().unbind(0);
    for (std::int64_t i = 0; i < s.layers; ++i) plan.left()[input_of(i)] = each_1NP[i];
  }

 private:
  const Gemma4Shape& s;
  nn::Embedding& embed_tokens_per_layer =
      child<nn::Embedding>("embed_tokens_per_layer", s.per_layer_vocab, s.layers* s.per_layer, s.std, s.no_gradient_id);
  nn::Linear& per_layer_model_projection = child<nn::Linear>("per_layer_model_projection", s.hidden,
                                                             s.layers* s.per_layer, nn::Linear::Options{.std = s.std});
  nn::RmsNorm& per_layer_projection_norm = child<nn::RmsNorm>("per_layer_projection_norm", s.per_layer, s.norm());
};

class Gemma4Stack : public LlamaModel<Gemma4Block, Gemma4Shape> {
 public:
  explicit Gemma4Stack(Gemma4Shape shape) : LlamaModel(std::move(shape)) {
    if (s.per_layer > 0) inputs = &child<Gemma4Inputs>(s.body, s);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = words(batch.ids_BT, pass);
    leave_inputs(batch.ids_BT, x_BTD, pass);
    return x_BTD;
  }
  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training && s.experts > 0) nn::balance(pass, s.experts_per_token, /*coefficient=*/0);
    return LlamaModel::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return s.experts == 0 && LlamaModel::shares_prefixes(); }
  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> layers;
    for (std::int64_t i = 0; i < s.layers; ++i) layers.push_back({s.heads, s.head_size_of(i), s.windows[i]});
    return layers;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (std::int64_t i = 0; i < s.layers; ++i)
      spec.layers.push_back(s.shares(i) ? CacheSpec::Layer{}
                                        : CacheSpec::Layer{s.kv_heads_of(i), s.head_size_of(i), s.windows[i]});
    return spec;
  }
  // Published files have keys and values of layers that use those of others.
  bool is_no_weight(const std::string& tensor) const override {
    const std::string body = s.body;
    const std::optional<std::int64_t> layer =
        tensor.starts_with(body + ".") ? layer_of("model" + tensor.substr(body.size())) : std::nullopt;
    if (!layer || *layer < 0 || *layer >= s.layers || !s.shares(*layer)) return false;
    const auto is_of = [&](const char* name) { return tensor.find(name) != std::string::npos; };
    return is_of(".self_attn.k_proj.") || is_of(".self_attn.v_proj.") || is_of(".self_attn.k_norm.") ||
           is_of(".self_attn.v_norm.");
  }

 protected:
  Tensor words(const Tensor& ids_BT, Pass& pass) const {
    return nn::embedding_noise(scaled(model.embed_tokens(ids_BT, pass), embedding_scale()), pass);
  }
  // x: what the first layer will see.
  void leave_inputs(const Tensor& ids_BT, const Tensor& x_BTD, Pass& pass) const {
    if (inputs) inputs->leave(ids_BT, x_BTD, pass);
  }

 private:
  double embedding_scale() const override { return rounded(s.embedding_scale, model.embed_tokens.weight); }

  const Gemma4Inputs* inputs = nullptr;  // null: tokens bring nothing
};

}  // namespace hone::models
