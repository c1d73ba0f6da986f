// GLM-4's block: gate and up of its MLP are one weight; later ones norm also what attention and MLP give.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include "models/joined_mlp.h"
#include "models/llama_model.h"

namespace hone::models {

class GlmBlock final : public nn::ResidualBlock {
 public:
  GlmBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {
    if (s.model_type == "glm") return;
    post_self_attn_layernorm = &child<nn::RmsNorm>("post_self_attn_layernorm", s.hidden, s.norm());
    post_mlp_layernorm = &child<nn::RmsNorm>("post_mlp_layernorm", s.hidden, s.norm());
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += normed(post_self_attn_layernorm, self_attn(input_layernorm(x), pass));
    x += normed(post_mlp_layernorm, mlp(post_attention_layernorm(x), pass));
  }

 private:
  static Tensor normed(const nn::RmsNorm* norm, const Tensor& x) { return norm ? (*norm)(x) : x; }

  const LlamaShape& s;
  LlamaAttention& self_attn;
  JoinedMlp& mlp = child<JoinedMlp>("mlp", s);
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
  nn::RmsNorm *post_self_attn_layernorm = nullptr, *post_mlp_layernorm = nullptr;
};

}  // namespace hone::models
