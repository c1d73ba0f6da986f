// A block whose MLP may square what relu gives. N: its norms.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <type_traits>

#include "models/llama_model.h"
#include "models/plain_mlp.h"

namespace hone::models {

template <class N>
class SquaringBlock final : public nn::ResidualBlock {
 public:
  SquaringBlock(const SquaringShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
  }

 private:
  N& norm(const char* name) {
    if constexpr (std::is_same_v<N, nn::RmsNorm>) return child<N>(name, s.hidden, s.norm());
    else return child<N>(name, s.hidden, s.eps);
  }
  const SquaringShape& s;
  LlamaAttention& self_attn;
  PlainMlp& mlp = child<PlainMlp>("mlp", s.mlp());
  N& input_layernorm = norm("input_layernorm");
  N& post_attention_layernorm = norm("post_attention_layernorm");
};

}  // namespace hone::models
