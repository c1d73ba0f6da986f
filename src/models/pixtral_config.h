// What config.json says of Pixtral's vision tower.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"

namespace hone::models {

struct PixtralConfig {
  std::string model_type = "pixtral", hidden_act = "gelu";
  std::int64_t hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, num_attention_heads = 16,
               num_channels = 3, image_size = 1024, patch_size = 16;
  double attention_dropout = 0, initializer_range = 0.02;
  config::Open rope_parameters;
  std::optional<double> rope_theta;
  std::optional<std::int64_t> head_dim, vocab_size;

  static constexpr auto fields() {
    using C = PixtralConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "pixtral."),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("num_channels", &C::num_channels, "Must be 3."),
        field("image_size", &C::image_size, "Kept for others: preprocessor_config.json says how large a picture is.",
              size),
        field("patch_size", &C::patch_size, "Pixels of a patch's side.", {.low = 1, .high = 65536}),
        field("hidden_act", &C::hidden_act, "Activation of the MLP's gate: gelu, silu, gelu_pytorch_tanh or relu."),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("rope_parameters", &C::rope_parameters, "Rotation by rows and columns: rope_theta, and rope_type axial."),
        field("rope_theta", &C::rope_theta, "The same in transformers 4's form; default 10000.",
              {.low = 1, .high = 1e15}),
        field("head_dim", &C::head_dim, "Must be hidden_size / num_attention_heads.", {.low = 1, .high = 65536}),
        field("vocab_size", &C::vocab_size, "No effect: a tower of pictures reads no words.")};
  }
};

// What it means.
struct PixtralShape {
  std::int64_t hidden = 0, inner = 0, layers = 0, heads = 1, patch = 1;
  std::string activation = "gelu";
  double theta = 10000, dropout = 0, std = 0.02;
  std::int64_t head_size() const { return hidden / heads; }
};
PixtralShape resolve(const PixtralConfig& config, Problems& problems);
config::Node to_hf_config(const PixtralConfig& config, const PixtralShape& shape, const std::string& dtype);

}  // namespace hone::models
