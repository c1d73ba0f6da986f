// What config.json says of a SigLIP vision tower, as Gemma 3 has it, of a SigLIP 2's, and of what Idefics 3 and SmolVLM
// made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "models/tower_block.h"

namespace hone::models {

struct SiglipConfig {
  std::string model_type = "siglip_vision_model", hidden_act = "gelu_pytorch_tanh";
  std::optional<std::int64_t> hidden_size, num_attention_heads, patch_size;
  std::int64_t intermediate_size = 3072, num_hidden_layers = 12, num_channels = 3, image_size = 224;
  double layer_norm_eps = 1e-6, attention_dropout = 0, initializer_range = 0.02;
  std::optional<bool> vision_use_head, use_base_siglip, tie_word_embeddings;
  config::Open max_image_size, size;
  std::optional<std::int64_t> num_patches;

  static constexpr auto fields() {
    using C = SiglipConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type,
              "siglip_vision_model, siglip2_vision_model, idefics3_vision or smolvlm_vision."),
        field("hidden_size", &C::hidden_size, "Width of the residual stream; default 768, of others than SigLIP 1152.",
              size),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads,
              "Attention heads; default 12, of others than SigLIP 16.", {.low = 1, .high = 65536}),
        field("num_channels", &C::num_channels, "Must be 3."),
        field("image_size", &C::image_size, "Pixels of a picture's side.", {.low = 1, .high = 65536}),
        field("patch_size", &C::patch_size, "Pixels of a patch's side; default 16, of others than SigLIP 32.",
              {.low = 1, .high = 65536}),
        field("hidden_act", &C::hidden_act,
              "Activation of the MLP: gelu_pytorch_tanh, gelu, quick_gelu, silu or relu."),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("initializer_range", &C::initializer_range,
              "Standard deviation of fresh weights, of others than SigLIP.", {.low = 0, .high = 100}),
        field("vision_use_head", &C::vision_use_head,
              "SigLIP: whether there is a head that pools patches, which nothing reads: it is kept; default true."),
        field("use_base_siglip", &C::use_base_siglip, "No effect: what a published tower was begun with."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "No effect: a tower of pictures reads no words."),
        field("max_image_size", &C::max_image_size, "No effect: preprocessor_config.json says it."),
        field("size", &C::size, "No effect: preprocessor_config.json says it."),
        field("num_patches", &C::num_patches,
              "SigLIP 2: learned positions, the square of a number, that lie over any picture; default 256.",
              {.low = 1, .high = 16777216})};
  }
};

// What it means.
struct SiglipShape {
  TowerBlockShape block;
  std::string model_type;
  std::int64_t layers = 0, image = 0, patch = 0;
  bool has_head = false;
  double patch_std = 0.02, position_std = 0.02;
  bool by_buckets = false;  // where a patch stands is found as Idefics 3 finds it
  bool any_size = false;    // SigLIP 2: positions lie over pictures of any size
  std::int64_t side() const { return image / patch; }  // patches of a picture's side
  std::int64_t positions() const { return side() * side(); }
};
// type: as transformers 5 calls it; older files call the tower as the whole model.
SiglipShape resolve(const SiglipConfig& config, const std::string& type, Problems& problems);

config::Node to_hf_config(const SiglipConfig& config, const SiglipShape& shape, const std::string& dtype);

}  // namespace hone::models
