// Llama's blocks, and models of them: those that differ in numbers alone.
//
// Letters in tensor names: D hidden, N tokens.
#pragma once

#include "models/decoding_llama.h"

namespace hone::models {

class LlamaBlock final : public nn::ResidualBlock {
 public:
  static constexpr bool kTakesTensor = true;  // all its layers know of slices (nn/slices.h)
  LlamaBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += added(self_attn(input_layernorm(x), pass), pass, "attention");
    x += added(mlp(post_attention_layernorm(x), pass), pass, "mlp");
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    layer.mlp = mlp.with_adapters(pass);
    return layer;
  }

 private:
  Tensor added(const Tensor& x, const Pass& pass, const char* place) const {
    return nn::dropout(scaled(x, s.residual_scale), s.residual_dropout, pass, place);
  }

  const LlamaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

using LlamaStack = DecodingLlama<LlamaBlock>;

}  // namespace hone::models
