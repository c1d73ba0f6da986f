// Gemma's blocks, and models of them: norms of 1 + weight, from Gemma 2 on before and behind attention and MLP.
//
// Letters in tensor names: D hidden.
#pragma once

#include "models/gemma_config.h"
#include "models/llama_stack.h"

namespace hone::models {

class GemmaBlock final : public nn::ResidualBlock {
 public:
  GemmaBlock(const GemmaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {
    if (!s.norms_outputs) return;
    pre_feedforward_layernorm = &child<nn::RmsNorm>("pre_feedforward_layernorm", s.hidden, s.norm());
    post_feedforward_layernorm = &child<nn::RmsNorm>("post_feedforward_layernorm", s.hidden, s.norm());
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    if (!s.norms_outputs) {
      x += self_attn(input_layernorm(x), pass);
      x += mlp(post_attention_layernorm(x), pass);
      return;
    }
    x += post_attention_layernorm(self_attn(input_layernorm(x), pass));
    x += (*post_feedforward_layernorm)(mlp((*pre_feedforward_layernorm)(x), pass));
  }

  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.mlp = mlp.with_adapters(pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    if (!s.norms_outputs) return layer;
    layer.attention_out_norm_D = layer.mlp_norm_D;
    layer.mlp_norm_D = pre_feedforward_layernorm->weight.use();
    layer.mlp_out_norm_D = post_feedforward_layernorm->weight.use();
    return layer;
  }

 private:
  const GemmaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>(s.mlp_norm, s.hidden, s.norm());
  nn::RmsNorm *pre_feedforward_layernorm = nullptr, *post_feedforward_layernorm = nullptr;
};

// The model around them, whose embeddings are scaled.
class GemmaStack : public DecodingLlama<GemmaBlock, GemmaShape> {
 public:
  using DecodingLlama::DecodingLlama;

 private:
  // Rounded to the embeddings' type, as these models were trained with it.
  double embedding_scale() const override;
};

}  // namespace hone::models
