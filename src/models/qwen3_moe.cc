// Qwen2-MoE (Qwen Team, 2024, arXiv:2407.10671) and Qwen3-MoE (2025, arXiv:2505.09388): Qwen2 and Qwen3 whose layers
// have routed experts in place of the MLP, the former with one besides that every token goes to.
//
// Letters in tensor names: N tokens, D hidden.
#include <ATen/ATen.h>

#include "base/log.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/balanced_model.h"
#include "models/decoding_llama.h"
#include "models/qwen3_moe_config.h"
#include "nn/experts.h"

namespace hone::models {
namespace {

class Qwen3MoeBlock final : public nn::ResidualBlock {
 public:
  static constexpr bool kTakesTensor = true;  // as LlamaBlock's
  Qwen3MoeBlock(const Qwen3MoeShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {
    if (s.sparse[layer])
      experts = &child<nn::RoutedMlp>("mlp", s.options(s));
    else
      mlp = &child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += experts ? (*experts)(post_attention_layernorm(x), pass) : (*mlp)(post_attention_layernorm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    experts ? experts->describe(layer, pass) : describe_mlp(*mlp, layer, pass);
    return layer;
  }

 private:
  const Qwen3MoeShape& s;
  LlamaAttention& self_attn;
  const nn::RoutedMlp* experts = nullptr;  // one of the two
  const nn::GatedMlp* mlp = nullptr;
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class Qwen3Moe final : public Balanced<DecodingLlama<Qwen3MoeBlock, Qwen3MoeShape>> {
 public:
  Qwen3Moe(const Qwen3MoeConfig& config, const HeadRequest& head)
      : Balanced(shape_of(config, head)), config_(config) {
    if (config.model_type == "qwen3_moe" && config.max_window_layers && s.windows[0] > 0)
      log::warning("config.json: max_window_layers has no effect in qwen3_moe models, in transformers as here");
  }

  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  Qwen3MoeConfig config_;
};

}  // namespace

void register_qwen3_moe(Registries& hone) {
  hone.models.add<Qwen3Moe, Qwen3MoeConfig>({"qwen2_moe", "qwen3_moe"}, "Qwen2 and Qwen3 with routed experts.");
}

}  // namespace hone::models
