// What config.json says of a CLIP vision tower.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"

namespace hone::models {

struct ClipConfig {
  std::string model_type = "clip_vision_model", hidden_act = "quick_gelu";
  std::int64_t hidden_size = 768, intermediate_size = 3072, projection_dim = 512, num_hidden_layers = 12,
               num_attention_heads = 12, num_channels = 3, image_size = 224, patch_size = 32;
  double layer_norm_eps = 1e-5, attention_dropout = 0, initializer_range = 0.02, initializer_factor = 1;
  std::optional<std::int64_t> vocab_size;

  static constexpr auto fields() {
    using C = ClipConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "clip_vision_model."),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("projection_dim", &C::projection_dim, "Kept for others.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("num_channels", &C::num_channels, "Must be 3."),
        field("image_size", &C::image_size, "Pixels of a picture's side.", {.low = 1, .high = 65536}),
        field("patch_size", &C::patch_size, "Pixels of a patch's side.", {.low = 1, .high = 65536}),
        field("hidden_act", &C::hidden_act,
              "Activation of the MLP: quick_gelu, gelu, gelu_pytorch_tanh, silu or relu."),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh tables and patches.",
              {.low = 0, .high = 100}),
        field("initializer_factor", &C::initializer_factor, "Times the deviation of all fresh weights.",
              {.low = 0, .high = 100}),
        field("vocab_size", &C::vocab_size, "No effect: a tower of pictures reads no words.")};
  }
  void validate(Problems& problems) const;

  std::int64_t head_size() const { return hidden_size / num_attention_heads; }
  std::int64_t side() const { return image_size / patch_size; }   // patches of a picture's side
  std::int64_t positions() const { return side() * side() + 1; }  // the first one is of the picture as a whole
};

config::Node to_hf_config(const ClipConfig& config, const std::string& dtype);

}  // namespace hone::models
