// Models of Llama's kind with the short way of decoding (nn/decoding): what their blocks say of themselves.
#pragma once

#include <memory>
#include <utility>

#include "models/llama_model.h"

namespace hone::models {

// MLPs that the short way knows: into a layer what it is.
template <class M>
concept HasForm = requires(const M& mlp, nn::PreNormLayer& layer, const Pass& pass) { mlp.describe(layer, pass); };
inline void describe_mlp(const nn::GatedMlp& mlp, nn::PreNormLayer& layer, const Pass& pass) {
  layer.mlp = mlp.with_adapters(pass);
}
template <HasForm M>
void describe_mlp(const M& mlp, nn::PreNormLayer& layer, const Pass& pass) {
  mlp.describe(layer, pass);
}

// With the short way where blocks say what they are: B::describe(pass).
template <class B, class S = LlamaShape>
class DecodingLlama : public LlamaModel<B, S>, public nn::HasDecoder {
  using Base = LlamaModel<B, S>;

 public:
  using Base::Base;

  std::unique_ptr<nn::Decoder> make_decoder(std::int64_t rows, const Pass& pass) const override {
    if constexpr (requires(const B& block) { block.describe(pass); }) {
      const S& s = Base::s;
      const bool knows = s.attention_soft_cap == 0 && s.logit_soft_cap == 0 && s.clip == 0 &&
                         (s.qk_norm == QkNorm::none || s.qk_norm == QkNorm::head || s.qk_norm == QkNorm::row);
      if (!knows || !Base::causal_lm()) return nullptr;
      nn::PreNormStack stack{.embedding_VD = Base::model.embed_tokens.weight.use(),
                             .norm_D = Base::model.norm.weight.use(),
                             .layers = {},
                             .head = Base::head().with_bias(),
                             .heads = s.heads,
                             .kv_heads = s.kv_heads,
                             .head_size = s.head_size,
                             .norm = s.norm(),
                             .scale = s.attention_scale,
                             .embedding_scale = this->embedding_scale(),
                             .residual_scale = s.residual_scale,
                             .hidden_scale = s.hidden_scale,
                             .activation = s.activation,
                             .positions = s.growth.beta != 0 ? s.growth.length : 0};
      for (const B* block : Base::model.layers.blocks()) stack.layers.push_back(block->describe(pass));
      if (!stack.layers.empty() && stack.layers[0].latent) stack.positions = 0;  // their queries grow there, too
      return nn::make_pre_norm_decoder(std::move(stack), rows);
    } else {
      return nullptr;
    }
  }
};

}  // namespace hone::models
