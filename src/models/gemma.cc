// Gemma (2024, arXiv:2403.08295), Gemma 2 (2024, arXiv:2408.00118) and the text models of Gemma 3 (2025,
// arXiv:2503.19786): norms of 1 + weight, scaled embeddings; from Gemma 2 on norms before and behind attention and MLP,
// and layers with windows; Gemma 2 caps scores and logits, Gemma 3 norms queries and keys. VaultGemma (2025,
// arXiv:2510.15001) is Gemma 2 without the norms behind.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens.
#include <ATen/ATen.h>

#include "hone/registry.h"
#include "models/gemma_config.h"
#include "models/llama_stack.h"
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

class Gemma final : public DecodingLlama<GemmaBlock, GemmaShape> {
 public:
  Gemma(const GemmaConfig& config, const HeadRequest& head) : DecodingLlama(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  // Rounded to the embeddings' type, as these models were trained with it.
  double embedding_scale() const override {
    const at::ScalarType type = model.embed_tokens.weight.use().scalar_type();
    return host::own_number(at::scalar_tensor(s.embedding_scale, at::kDouble).to(type));
  }
  GemmaConfig config_;
};

}  // namespace

void register_gemma(Registries& hone) {
  hone.models.add<Gemma, GemmaConfig>({"gemma", "gemma2", "gemma3_text", "vaultgemma"},
                                      "Gemma 1 to 3, text; VaultGemma.");
}

}  // namespace hone::models
