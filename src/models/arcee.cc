// AFM (Arcee AI, 2025): Llama whose MLP has no gate, but squares what relu gives (Zhang et al., 2024,
// arXiv:2402.03804).
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"
#include "models/plain_mlp.h"

namespace hone::models {
namespace {

struct ArceeConfig : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

SquaringShape resolve(const ArceeConfig& c, Problems& problems) {
  SquaringShape s;
  if (!resolve_squaring(c, s, problems)) return s;
  refuse_keys(c.model_type,
              {{"layer_types", c.layer_types.has_value()},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()}},
              problems);
  return s;
}

void ArceeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class ArceeBlock final : public nn::ResidualBlock {
 public:
  ArceeBlock(const SquaringShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
  }

 private:
  const SquaringShape& s;
  LlamaAttention& self_attn;
  PlainMlp& mlp = child<PlainMlp>("mlp", s.mlp());
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class Arcee final : public LlamaModel<ArceeBlock, SquaringShape> {
 public:
  Arcee(const ArceeConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  ArceeConfig config_;
};

}  // namespace

void register_arcee(Registries& hone) {
  hone.models.add<Arcee, ArceeConfig>("arcee", "AFM: Llama with an MLP of squares instead of gates.");
}

}  // namespace hone::models
