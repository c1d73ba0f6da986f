// The multipliers that Granite's config.json has, beside the keys of Llama.
#pragma once

#include "hone/config_read.h"
#include "models/llama_config.h"

namespace hone::models {

struct GraniteKeys : LlamaConfig {
  using Base = LlamaConfig;
  double embedding_multiplier = 1, attention_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;

  static constexpr auto fields() {
    using C = GraniteKeys;
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
};

inline void read_multipliers(const GraniteKeys& c, LlamaShape& s) {
  s.attention_scale = c.attention_multiplier, s.embedding_scale = c.embedding_multiplier;
  // The hidden states are scaled, and not the logits: these are many more.
  s.residual_scale = c.residual_multiplier, s.hidden_scale = 1 / c.logits_scaling;
}

inline void write_multipliers(const GraniteKeys& c, config::Node& node) {
  const auto put = [&](const char* key, double value) { node.at_or_add(key) = config::Values<double>::write(value); };
  put("embedding_multiplier", c.embedding_multiplier), put("logits_scaling", c.logits_scaling);
  put("attention_multiplier", c.attention_multiplier), put("residual_multiplier", c.residual_multiplier);
}

}  // namespace hone::models
