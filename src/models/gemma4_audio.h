// What Gemma 4 hears with. No model here hears: its weights are kept as they are, so that folders stay whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/module.h"

namespace hone::models {

// The tower of E2B and E4B, a conformer (Gulati et al., 2020, arXiv:2005.08100).
struct Gemma4AudioConfig {
  std::string model_type = "gemma4_audio", hidden_act = "silu";
  std::int64_t hidden_size = 1024, num_hidden_layers = 12, num_attention_heads = 8, conv_kernel_size = 5,
               attention_chunk_size = 12, attention_context_left = 13, attention_context_right = 0,
               output_proj_dims = 1536;
  std::vector<std::int64_t> subsampling_conv_channels{128, 32};
  double residual_weight = 0.5, attention_logit_cap = 50, attention_invalid_logits_value = -1e9, rms_norm_eps = 1e-6,
         gradient_clipping = 1e10, initializer_range = 0.02;
  bool use_clipped_linears = true;

  static constexpr auto fields() {
    using C = Gemma4AudioConfig;
    constexpr config::Range size{.low = 1, .high = 1000000};
    constexpr const char* kept = "Kept for others: sounds are not read.";
    return std::tuple{
        field("model_type", &C::model_type, "gemma4_audio."),
        field("hidden_act", &C::hidden_act, kept),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("subsampling_conv_channels", &C::subsampling_conv_channels, "Channels of two convolutions.", size),
        field("conv_kernel_size", &C::conv_kernel_size, "Width of the convolution in blocks.", size),
        field("residual_weight", &C::residual_weight, kept),
        field("attention_chunk_size", &C::attention_chunk_size, kept),
        field("attention_context_left", &C::attention_context_left, kept),
        field("attention_context_right", &C::attention_context_right, kept),
        field("attention_logit_cap", &C::attention_logit_cap, kept),
        field("attention_invalid_logits_value", &C::attention_invalid_logits_value, kept),
        field("use_clipped_linears", &C::use_clipped_linears, "Whether the file has where products are cut."),
        field("rms_norm_eps", &C::rms_norm_eps, kept),
        field("gradient_clipping", &C::gradient_clipping, kept),
        field("output_proj_dims", &C::output_proj_dims, "Width of what it makes.", size),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100})};
  }
};
void check(const Gemma4AudioConfig& config, Problems& problems);
config::Node to_hf_config(const Gemma4AudioConfig& config, const std::string& dtype);

// In unified models: a product with stretches of a sound.
struct Gemma4SoundConfig {
  std::string model_type = "gemma4_unified_audio";
  std::optional<std::int64_t> audio_embed_dim, audio_samples_per_token, hidden_size, output_proj_dims;
  double rms_norm_eps = 1e-6, initializer_range = 0.02;

  static constexpr auto fields() {
    using C = Gemma4SoundConfig;
    constexpr config::Range size{.low = 1, .high = 1000000};
    return std::tuple{field("model_type", &C::model_type, "gemma4_unified_audio."),
                      field("audio_embed_dim", &C::audio_embed_dim, "Numbers of a token's sound; default 640.", size),
                      field("audio_samples_per_token", &C::audio_samples_per_token, "Another name of it.", size),
                      field("hidden_size", &C::hidden_size, "Another name of it.", size),
                      field("output_proj_dims", &C::output_proj_dims, "Another name of it.", size),
                      field("rms_norm_eps", &C::rms_norm_eps, "Kept for others: sounds are not read."),
                      field("initializer_range", &C::initializer_range, "Kept for others: sounds are not read.")};
  }
  std::int64_t width() const;  // by the names that were given, which must agree
};
void check(const Gemma4SoundConfig& config, Problems& problems);
config::Node to_hf_config(const Gemma4SoundConfig& config, const std::string& dtype);

// Not trained; nothing can sit on its weights.
class Gemma4AudioTower final : public Module {
 public:
  explicit Gemma4AudioTower(const Gemma4AudioConfig& config);
};
// What brings a sound's vectors to the width of the texts.
class Gemma4SoundProduct final : public Module {
 public:
  Gemma4SoundProduct(std::int64_t width, std::int64_t hidden, double std);
};

}  // namespace hone::models
