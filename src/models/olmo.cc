// OLMo 1 (Groeneveld et al., 2024, arXiv:2402.00838): Llama with LayerNorms that have no weights, and queries, keys and
// values that may be cut.
#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/bare_layer_norm.h"
#include "models/llama_model.h"

namespace hone::models {
namespace {

struct OlmoConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> clip_qkv;

  static constexpr auto fields() {
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("clip_qkv", &OlmoConfig::clip_qkv, "Queries, keys and values are cut to at most that much.",
                         {.low = 1e-9, .high = 1e9})});
  }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const OlmoConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type, {{"rms_norm_eps", c.rms_norm_eps.has_value()}}, problems);
  s.clip = c.clip_qkv.value_or(0);
  return s;
}

void OlmoConfig::validate(Problems& problems) const { resolve(*this, problems); }

class OlmoBlock final : public nn::ResidualBlock {
 public:
  OlmoBlock(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  BareLayerNorm& input_layernorm = child<BareLayerNorm>("input_layernorm", s);
  BareLayerNorm& post_attention_layernorm = child<BareLayerNorm>("post_attention_layernorm", s);
};

class Olmo final : public LlamaModel<OlmoBlock, LlamaShape, BareLayerNorm> {
 public:
  Olmo(const OlmoConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    node.at_or_add("clip_qkv") = config_.clip_qkv ? nn::hf_float(*config_.clip_qkv) : config::Node();
    std::erase_if(node.entries(), [](const config::Node::Entry& entry) { return entry.first == "rms_norm_eps"; });
    sort_keys(node);
    return node;
  }

 private:
  OlmoConfig config_;
};

}  // namespace

void register_olmo(Registries& hone) {
  hone.models.add<Olmo, OlmoConfig>("olmo", "OLMo 1: LayerNorms without weights.");
}

}  // namespace hone::models
