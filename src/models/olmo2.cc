// OLMo 2 (Walsh et al., 2024, arXiv:2501.00656) and OLMo 3 (2025): what attention and MLP give is normed, not what they
// read, and queries and keys are, all heads together. OLMo 3 has windows in three of four layers.
//
// Letters in tensor names: D hidden, N tokens.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct Olmo2Config : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

constexpr double kTheta = 500000;  // of OLMo 3's layers that slide whatever rope_theta says, as in transformers

LlamaShape resolve(const Olmo2Config& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  if (s.model_type == "olmo3") read_two_ropes(c, kTheta, kTheta, s, problems);
  return s;
}

void Olmo2Config::validate(Problems& problems) const { resolve(*this, problems); }

class Olmo2Block final : public nn::ResidualBlock {
 public:
  Olmo2Block(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += post_attention_layernorm(self_attn(x.sum(), pass));
    x += post_feedforward_layernorm(mlp(x.sum(), pass));
  }

  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.mlp = mlp.with_adapters(pass);
    layer.attention_out_norm_D = post_attention_layernorm.weight.use();
    layer.mlp_out_norm_D = post_feedforward_layernorm.weight.use();
    return layer;
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_feedforward_layernorm = child<nn::RmsNorm>("post_feedforward_layernorm", s.hidden, s.norm());
};

class Olmo2 final : public DecodingLlama<Olmo2Block> {
 public:
  Olmo2(const Olmo2Config& config, const HeadRequest& head) : DecodingLlama(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  Olmo2Config config_;
};

}  // namespace

void register_olmo2(Registries& hone) {
  hone.models.add<Olmo2, Olmo2Config>({"olmo2", "olmo3"}, "OLMo 2 and 3: norms behind attention and MLP.");
}

}  // namespace hone::models
