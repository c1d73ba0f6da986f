// Qwen3-VL (Bai et al., 2025, arXiv:2511.21631): Qwen3 with a tower for pictures of any size, whose first layers read
// what earlier blocks of the tower give of a picture, too (DeepStack: Meng et al., 2024, arXiv:2406.04334).
//
// Letters in tensor names: D hidden.
// Children carry Hugging Face's names.
#include "hone/registry.h"
#include "models/qwen_vl_model.h"

namespace hone::models {
namespace {

// Qwen3's, and behind it what the tower has left for it.
class DeepBlock final : public nn::ResidualBlock {
 public:
  DeepBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), layer_(layer), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
    add_left(x, layer_, pass);
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
  const std::int64_t layer_;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

}  // namespace

void register_qwen3_vl(Registries& hone) {
  using Qwen3Vl = QwenVlModel<DecodingLlama<DeepBlock>, QwenVlShape>;
  hone.models.add<Qwen3Vl, QwenVlConfig>("qwen3_vl", "Qwen3-VL: texts with pictures of any size.");
}

}  // namespace hone::models
