// Jais 2 (Inception, 2025): Llama with LayerNorms, an MLP of squares without a gate, and biases.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"
#include "models/plain_mlp.h"
#include "models/pre_norm_block.h"

namespace hone::models {
namespace {

struct Jais2Config : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> layer_norm_eps;

  static constexpr auto fields() {
    return std::tuple_cat(LlamaConfig::fields(), std::tuple{field("layer_norm_eps", &Jais2Config::layer_norm_eps,
                                                                  "Added to the variance in LayerNorm; default 1e-5.",
                                                                  {.low = 0, .high = 1})});
  }
  void validate(Problems& problems) const;
};

// What transformers takes for keys that are absent.
LlamaConfig completed(const Jais2Config& given) {
  LlamaConfig c = given;
  c.rms_norm_eps = given.layer_norm_eps;
  c.attention_bias = given.attention_bias.value_or(true), c.mlp_bias = given.mlp_bias.value_or(true);
  return c;
}

SquaringShape resolve(const Jais2Config& c, Problems& problems) {
  SquaringShape s;
  if (!resolve_squaring(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type, {{"rms_norm_eps", c.rms_norm_eps.has_value()}}, problems);
  s.norm_bias = true;
  return s;
}

void Jais2Config::validate(Problems& problems) const { resolve(*this, problems); }

using Jais2Block = PreNormBlock<SquaringShape, PlainMlp, LlamaAttention, nn::LayerNorm>;

class Jais2 final : public LlamaModel<Jais2Block, SquaringShape, nn::LayerNorm> {
 public:
  Jais2(const Jais2Config& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(completed(config_), s, dtype()); }

 private:
  Jais2Config config_;
};

}  // namespace

void register_jais2(Registries& hone) {
  hone.models.add<Jais2, Jais2Config>("jais2", "Jais 2: LayerNorms, an MLP of squares.");
}

}  // namespace hone::models
