// Granite 3 (IBM, 2024): Llama whose embeddings, scores, residual additions and logits are multiplied by numbers of
// their own.
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

LlamaShape resolve(const GraniteConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  s.attention_scale = c.attention_multiplier, s.embedding_scale = c.embedding_multiplier;
  // The hidden states are scaled, and not the logits: these are many more.
  s.residual_scale = c.residual_multiplier, s.hidden_scale = 1 / c.logits_scaling;
  return s;
}

void GraniteConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Granite final : public LlamaStack {
 public:
  Granite(const GraniteConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    const auto put = [&](const char* key, double value) { node.at_or_add(key) = config::Values<double>::write(value); };
    put("embedding_multiplier", config_.embedding_multiplier), put("logits_scaling", config_.logits_scaling);
    put("attention_multiplier", config_.attention_multiplier), put("residual_multiplier", config_.residual_multiplier);
    sort_keys(node);
    return node;
  }

 private:
  GraniteConfig config_;
};

}  // namespace

void register_granite(Registries& hone) {
  hone.models.add<Granite, GraniteConfig>("granite", "Llama with multipliers of embeddings, scores, sums and logits.");
}

}  // namespace hone::models
