// A block whose attention and MLP each read a norm of what is summed up so far.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <type_traits>

#include "hone/layers.h"
#include "models/decoding_llama.h"
#include "nn/experts.h"

namespace hone::models {

// Whether such an MLP knows of slices (nn/slices.h).
template <class M>
constexpr bool takes_tensor() {
  if constexpr (requires { M::kTakesTensor; }) return M::kTakesTensor;
  return std::is_same_v<M, nn::GatedMlp> || std::is_same_v<M, nn::RoutedMlp>;
}

// Attention that says what it is to the short way of decoding.
template <class A>
concept DescribesItself = requires(const A& a, nn::PreNormLayer& layer, const Pass& pass) { a.describe(layer, pass); };

// M is made as M(shape, layer), or as M(shape.mlp_options()); A: the attention, as A(shape, ropes, layer); N: norms.
template <class S, class M, class A = LlamaAttention, class N = nn::RmsNorm>
class PreNormBlock final : public nn::ResidualBlock {
 public:
  static constexpr bool kTakesTensor = std::is_same_v<A, LlamaAttention> && takes_tensor<M>();
  PreNormBlock(const S& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<A>("self_attn", s, ropes, layer)), mlp(make_mlp(layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += scaled(self_attn(input_layernorm(x), pass), s.residual_scale);
    x += scaled(mlp(post_attention_layernorm(x), pass), s.residual_scale);
  }
  nn::PreNormLayer describe(const Pass& pass) const
    requires DescribesItself<A> && std::is_same_v<N, nn::RmsNorm> && HasForm<M>
  {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    mlp.describe(layer, pass);
    return layer;
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
