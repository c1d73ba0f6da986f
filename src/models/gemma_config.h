// What config.json of a Gemma may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include "models/llama_config.h"

namespace hone::models {

struct GemmaConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::string> hidden_activation;
  std::optional<std::int64_t> query_pre_attn_scalar;
  std::optional<double> rope_local_base_freq;
  config::Open attn_logit_softcapping{config::Node::scalar("default")},
      final_logit_softcapping{config::Node::scalar("default")};
  std::optional<std::int64_t> sliding_window_pattern, sliding_window_pattern_kept;
  std::optional<bool> use_bidirectional_attention;
  std::optional<std::string> cache_implementation;
  std::optional<std::int64_t> sliding_window_size;

  static constexpr auto fields() {
    using C = GemmaConfig;
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("hidden_activation", &C::hidden_activation, "Activation of the MLP's gate; gelu_pytorch_tanh."),
            field("query_pre_attn_scalar", &C::query_pre_attn_scalar,
                  "gemma2, vaultgemma, gemma3_text: scores are divided by its square root; default 256.",
                  {.low = 1, .high = 1000000}),
            field("attn_logit_softcapping", &C::attn_logit_softcapping,
                  "gemma2, vaultgemma: cap c of scores s, c tanh(s / c); null = none, default 50. gemma3_text: only "
                  "null."),
            field("final_logit_softcapping", &C::final_logit_softcapping,
                  "gemma2, vaultgemma, gemma3_text: the same of logits; default 30, null in gemma3_text."),
            field("rope_local_base_freq", &C::rope_local_base_freq,
                  "gemma3_text: base of the rotary frequencies in layers that slide, in transformers 4's form.",
                  {.low = 1, .high = 1e15}),
            field("sliding_window_pattern", &C::sliding_window_pattern,
                  "gemma3_text: without layer_types, every how manieth layer sees all; default 6.",
                  {.low = 1, .high = 10000}),
            field("_sliding_window_pattern", &C::sliding_window_pattern_kept,
                  "What layer_types was made of, as transformers 5 keeps it.", {.low = 1, .high = 10000}),
            field("use_bidirectional_attention", &C::use_bidirectional_attention,
                  "gemma3_text: a token sees those behind it, too, as in EmbeddingGemma; the model then has no "
                  "language model's head. Of others only false."),
            field("sliding_window_size", &C::sliding_window_size, "Has no effect, in transformers as here."),
            field("cache_implementation", &C::cache_implementation,
                  "Of transformers' generation; means nothing here.")});
  }
  void validate(Problems& problems) const;
};

struct GemmaShape : LlamaShape {
  bool norms_outputs = false;  // of attention and MLP: from Gemma 2 on, but for VaultGemma
};
GemmaShape resolve(const GemmaConfig& config, Problems& problems);

config::Node to_hf_config(const GemmaConfig& config, const GemmaShape& shape, const std::string& dtype);

}  // namespace hone::models
