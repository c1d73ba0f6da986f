// A block whose attention and MLP each read a norm of what is summed up so far.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <type_traits>

#include "hone/layers.h"
#include "models/llama_model.h"

namespace hone::models {

// M is made as M(shape, layer), or as M(shape.mlp_options()); A: the attention, as A(shape, ropes, layer); N: norms.
template <class S, class M, class A = LlamaAttention, class N = nn::RmsNorm>
class PreNormBlock final : public nn::ResidualBlock {
 public:
  PreNormBlock(const S& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<A>("self_attn", s, ropes, layer)), mlp(make_mlp(layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += scaled(self_attn(input_layernorm(x), pass), s.residual_scale);
    x += scaled(mlp(post_attention_layernorm(x), pass), s.residual_scale);
  }

 private:
  M& make_mlp(std::int64_t layer) {
    if constexpr (std::is_constructible_v<M, const S&, std::int64_t>) return child<M>(s.mlp_name, s, layer);
    else return child<M>(s.mlp_name, s.mlp_options());
  }
  N& norm(const char* name) {
    if constexpr (std::is_same_v<N, nn::RmsNorm>) return child<N>(name, s.hidden, s.norm());
    else return child<N>(name, s.hidden, s.eps);
  }
  const S& s;
  A& self_attn;
  M& mlp;
  N& input_layernorm = norm(s.attention_norm);
  N& post_attention_layernorm = norm(s.mlp_norm);
};

}  // namespace hone::models
