// A block that norms what attention and MLP give, and not what they read.
//
// Letters in tensor names: D hidden.
#pragma once

#include <type_traits>

#include "models/llama_stack.h"

namespace hone::models {

// M: a GatedMlp, or made as M(shape.mlp_options()).
template <class S = LlamaShape, class M = nn::GatedMlp>
class PostNormBlock final : public nn::ResidualBlock {
 public:
  static constexpr bool kTakesTensor = std::is_same_v<M, nn::GatedMlp>;  // as LlamaBlock's
  PostNormBlock(const S& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)), mlp(make_mlp()) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += post_attention_layernorm(self_attn(x.sum(), pass));
    x += post_feedforward_layernorm(mlp(x.sum(), pass));
  }

  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    describe_mlp(mlp, layer, pass);
    layer.attention_out_norm_D = post_attention_layernorm.weight.use();
    layer.mlp_out_norm_D = post_feedforward_layernorm.weight.use();
    return layer;
  }

 private:
  M& make_mlp() {
    if constexpr (std::is_same_v<M, nn::GatedMlp>)
      return child<M>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
    else
      return child<M>("mlp", s.mlp_options());
  }
  const S& s;
  LlamaAttention& self_attn;
  M& mlp;
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_feedforward_layernorm = child<nn::RmsNorm>("post_feedforward_layernorm", s.hidden, s.norm());
};

}  // namespace hone::models
