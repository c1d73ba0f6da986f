// Llama's blocks, and models of them: those that differ in numbers alone.
//
// Letters in tensor names: D hidden, N tokens.
#pragma once

#include <memory>
#include <utility>

#include "models/llama_model.h"

namespace hone::models {

class LlamaBlock final : public nn::ResidualBlock {
 public:
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

// With the short way of decoding. Blocks say what they are: B::describe(pass).
template <class B, class S = LlamaShape>
class DecodingLlama : public LlamaModel<B, S>, public nn::HasDecoder {
  using Base = LlamaModel<B, S>;

 public:
  using Base::Base;

  std::unique_ptr<nn::Decoder> make_decoder(std::int64_t rows, const Pass& pass) const override {
    const S& s = Base::s;
    const bool knows = s.attention_soft_cap == 0 && s.logit_soft_cap == 0 && s.rope.partial_rotary_factor == 1 &&
                       !s.rotates_neighbours && s.clip == 0 && !s.sinks && s.qk_norm != QkNorm::rotated_head;
    if (!knows) return nullptr;
    nn::PreNormStack stack{.embedding_VD = Base::model.embed_tokens.weight.use(),
                           .norm_D = Base::model.norm.weight.use(),
                           .layers = {},
                           .head = Base::head().with_bias(),
                           .head_size = s.head_size,
                           .norm = s.norm(),
                           .scale = s.attention_scale,
                           .embedding_scale = this->embedding_scale(),
                           .residual_scale = s.residual_scale,
                           .hidden_scale = s.hidden_scale,
                           .activation = s.activation,
                           .positions = s.growth.beta != 0 ? s.growth.length : 0};
    for (const B* block : Base::model.layers.blocks()) stack.layers.push_back(block->describe(pass));
    return nn::make_pre_norm_decoder(std::move(stack), rows);
  }
};

using LlamaStack = DecodingLlama<LlamaBlock>;

}  // namespace hone::models
