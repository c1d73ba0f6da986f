// Gemma (2024, arXiv:2403.08295), Gemma 2 (2024, arXiv:2408.00118) and the text models of Gemma 3 (2025,
// arXiv:2503.19786): norms of 1 + weight, scaled embeddings; from Gemma 2 on norms before and behind attention and MLP,
// and layers with windows; Gemma 2 caps scores and logits, Gemma 3 norms queries and keys.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens.
#include <ATen/ATen.h>

#include "hone/registry.h"
#include "models/gemma_config.h"
#include "models/llama_model.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

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

 private:
  const GemmaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
  nn::RmsNorm *pre_feedforward_layernorm = nullptr, *post_feedforward_layernorm = nullptr;
};

class Gemma final : public LlamaModel<GemmaBlock, GemmaShape> {
 public:
  Gemma(const GemmaConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  // The scale is rounded to the embeddings' type, as these models were trained with it.
  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = model.embed_tokens(batch.ids_BT, pass);
    const Tensor scale = at::scalar_tensor(s.embedding_scale, at::kDouble).to(x_BTD.scalar_type());
    return x_BTD * host::own_number(scale);
  }
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  GemmaConfig config_;
};

}  // namespace

void register_gemma(Registries& hone) {
  hone.models.add<Gemma, GemmaConfig>({"gemma", "gemma2", "gemma3_text"}, "Gemma 1 to 3, text.");
}

}  // namespace hone::models
