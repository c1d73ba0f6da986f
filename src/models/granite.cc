// Granite 3 (IBM, 2024): Llama whose embeddings, scores, residual additions and logits are multiplied by numbers of
// their own.
//
// Letters in tensor names: D hidden, N tokens.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct GraniteConfig : LlamaConfig {
  using Base = LlamaConfig;
  double embedding_multiplier = 1, attention_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;

  static constexpr auto fields() {
    using C = GraniteConfig;
    constexpr config::Range any{.low = 1e-9, .high = 1e9};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("embedding_multiplier", &C::embedding_multiplier, "What embeddings are multiplied with.", any),
                   field("attention_multiplier", &C::attention_multiplier,
                         "What products of queries and keys are multiplied with, instead of 1 / sqrt(head_dim).", any),
                   field("residual_multiplier", &C::residual_multiplier,
                         "What attention and MLP give is multiplied with before it is added.", any),
                   field("logits_scaling", &C::logits_scaling, "What logits are divided by.", any)});
  }
  void validate(Problems& problems) const;
};

struct GraniteShape : LlamaShape {
  double residual_scale = 1, logits_scale = 1;
};

GraniteShape resolve(const GraniteConfig& c, Problems& problems) {
  GraniteShape s;
  if (!resolve_base(c, s, problems)) return s;
  s.attention_scale = c.attention_multiplier, s.embedding_scale = c.embedding_multiplier;
  s.residual_scale = c.residual_multiplier, s.logits_scale = 1 / c.logits_scaling;
  return s;
}

void GraniteConfig::validate(Problems& problems) const { resolve(*this, problems); }

class GraniteBlock final : public nn::ResidualBlock {
 public:
  GraniteBlock(const GraniteShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass) * s.residual_scale;
    x += mlp(post_attention_layernorm(x), pass) * s.residual_scale;
  }

  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    self_attn.describe(layer, pass);
    layer.mlp = mlp.with_adapters(pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    return layer;
  }

 private:
  const GraniteShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class Granite final : public DecodingLlama<GraniteBlock, GraniteShape> {
 public:
  Granite(const GraniteConfig& config, const HeadRequest& head)
      : DecodingLlama(shape_of(config, head)), config_(config) {}

  // Scaled here, and not the logits: these are many more.
  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    return DecodingLlama::finish(x_1ND, pass) * s.logits_scale;
  }
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    const auto put = [&](const char* key, double value) { node.at_or_add(key) = config::Values<double>::write(value); };
    put("embedding_multiplier", config_.embedding_multiplier), put("logits_scaling", config_.logits_scaling);
    put("attention_multiplier", config_.attention_multiplier), put("residual_multiplier", config_.residual_multiplier);
    sort_keys(node);
    return node;
  }

 private:
  void describe(nn::PreNormStack& stack) const override {
    stack.residual_scale = s.residual_scale, stack.hidden_scale = s.logits_scale;
  }
  GraniteConfig config_;
};

}  // namespace

void register_granite(Registries& hone) {
  hone.models.add<Granite, GraniteConfig>("granite", "Llama with multipliers of embeddings, scores, sums and logits.");
}

}  // namespace hone::models
