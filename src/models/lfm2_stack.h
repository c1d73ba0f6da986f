// LFM2's blocks, and the model of them.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include "models/gated_convolution.h"
#include "models/lfm2_config.h"
#include "models/decoding_llama.h"

namespace hone::models {

class Lfm2Block final : public nn::ResidualBlock {
 public:
  Lfm2Block(const Lfm2Shape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.convolves[layer])
      conv = &child<GatedConvolution>("conv", GatedConvolution::Options{s.hidden, s.taps, s.conv_bias, s.std});
    else
      self_attn = &child<LlamaAttention>("self_attn", s, ropes, layer);
    if (s.sparse[layer])
      experts = &child<nn::RoutedMlp>("feed_forward", s.experts);
    else
      mlp = &child<nn::GatedMlp>(
          "feed_forward",
          nn::GatedMlp::Options{
              .hidden = s.hidden, .inner = s.mlp_inner, .std = s.std, .gate = "w1", .up = "w3", .down = "w2"});
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += conv ? (*conv)(operator_norm(x), pass) : (*self_attn)(operator_norm(x), pass);
    x += experts ? (*experts)(ffn_norm(x), pass) : (*mlp)(ffn_norm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    conv ? conv->describe(layer, pass) : self_attn->describe(layer, pass);
    layer.attention_norm_D = operator_norm.weight.use(), layer.mlp_norm_D = ffn_norm.weight.use();
    experts ? experts->describe(layer, pass) : describe_mlp(*mlp, layer, pass);
    return layer;
  }

 private:
  const Lfm2Shape& s;
  const GatedConvolution* conv = nullptr;  // one of the two
  const LlamaAttention* self_attn = nullptr;
  const nn::RoutedMlp* experts = nullptr;  // likewise
  const nn::GatedMlp* mlp = nullptr;
  nn::RmsNorm& operator_norm = child<nn::RmsNorm>("operator_norm", s.hidden, s.norm());
  nn::RmsNorm& ffn_norm = child<nn::RmsNorm>("ffn_norm", s.hidden, s.norm());
};

class Lfm2Stack : public DecodingLlama<Lfm2Block, Lfm2Shape> {
 public:
  using DecodingLlama::DecodingLlama;

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training && s.any_sparse()) nn::balance(pass, s.experts.per_token, /*coefficient=*/0);
    return LlamaModel::finish(x_1ND, pass);
  }
  // A convolution sees other tokens, too, and not through nn::attend; what is counted of experts is of each document's.
  bool shares_prefixes() const override {
    return !s.any_convolves() && !s.any_sparse() && LlamaModel::shares_prefixes();
  }
  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> layers;
    for (const bool convolves : s.convolves)
      if (!convolves) layers.push_back({s.heads, s.head_size});
    return layers;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const bool convolves : s.convolves)
      spec.layers.push_back(convolves ? CacheSpec::Layer{.memory = {.convolved = s.hidden, .taps = s.taps}}
                                      : CacheSpec::Layer{s.kv_heads, s.head_size});
    return spec;
  }
};

}  // namespace hone::models
