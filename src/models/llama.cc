// Llama (Touvron et al., 2023; Llama 1 to 3), and the models that are Llama with other numbers: Mistral, Qwen2, Qwen3.
//
// Letters in tensor names: D hidden, N tokens.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"

namespace hone::models {
namespace {

class LlamaBlock final : public nn::ResidualBlock {
 public:
  LlamaBlock(const LlamaShape& shape, const nn::Rope& rope, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, rope, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    layer.mlp = mlp.with_adapters(pass);
    return layer;
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.eps);
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.eps);
};

class Llama final : public LlamaModel<LlamaBlock>, public nn::HasDecoder {
 public:
  Llama(const LlamaConfig& config, const HeadRequest& head) : LlamaModel(resolve(config, head)), config_(config) {}

  std::unique_ptr<nn::Decoder> make_decoder(std::int64_t rows, const Pass& pass) const override {
    nn::PreNormStack stack{.embedding_VD = model.embed_tokens.weight.use(),
                           .norm_D = model.norm.weight.use(),
                           .layers = {},
                           .head = head().with_bias(),
                           .head_size = s.head_size,
                           .eps = s.eps,
                           .scale = scale_of(s),
                           .activation = s.activation,
                           .rope = &rope_};
    for (const LlamaBlock* block : model.layers.blocks()) stack.layers.push_back(block->describe(pass));
    return nn::make_pre_norm_decoder(std::move(stack), rows);
  }
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  LlamaConfig config_;
};

}  // namespace

void register_llama(Registries& hone) {
  hone.models.add<Llama, LlamaConfig>({"llama", "mistral", "qwen2", "qwen3"}, "Llama 1 to 3 and its relatives.");
}

}  // namespace hone::models
