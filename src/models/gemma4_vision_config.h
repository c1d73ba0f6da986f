// What config.json says of how Gemma 4 sees pictures: of its vision tower, or, in unified models, of the products that
// are there instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/layers.h"

namespace hone::models {

struct Gemma4VisionConfig {
  std::string model_type = "gemma4_vision", hidden_activation = "gelu_pytorch_tanh";
  std::int64_t hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 16, num_attention_heads = 12,
               num_key_value_heads = 12, head_dim = 64, max_position_embeddings = 131072, pooling_kernel_size = 3,
               patch_size = 16, position_embedding_size = 10240;
  double rms_norm_eps = 1e-6, attention_dropout = 0, initializer_range = 0.02;
  bool use_clipped_linears = false, standardize = false;
  std::optional<bool> attention_bias;
  std::optional<std::int64_t> default_output_length, global_head_dim;
  config::Open rope_parameters;

  static constexpr auto fields() {
    using C = Gemma4VisionConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "gemma4_vision."),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("num_key_value_heads", &C::num_key_value_heads, "Heads of keys and values.", {.low = 1, .high = 65536}),
        field("head_dim", &C::head_dim, "Size of a head, a multiple of 4.", {.low = 4, .high = 65536}),
        field("hidden_activation", &C::hidden_activation, "Activation of the MLP's gate."),
        field("rms_norm_eps", &C::rms_norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
        field("max_position_embeddings", &C::max_position_embeddings,
              "No effect: position_embedding_size says how large a picture may be.", size),
        field("attention_bias", &C::attention_bias, "No effect, in transformers as here."),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("rope_parameters", &C::rope_parameters,
              "rope_theta, the base of rotations by column and by row, default 100; rope_type axial."),
        field("pooling_kernel_size", &C::pooling_kernel_size, "Rows, and columns, of patches that become one token.",
              {.low = 1, .high = 64}),
        field("patch_size", &C::patch_size, "Pixels of a patch's side.", {.low = 1, .high = 1024}),
        field("position_embedding_size", &C::position_embedding_size,
              "Patches that a picture's row, or column, has at most.", size),
        field("use_clipped_linears", &C::use_clipped_linears,
              "Whether what products read and make is cut where the file says."),
        field("standardize", &C::standardize, "Whether tokens are moved and scaled by numbers of the file's."),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("default_output_length", &C::default_output_length, "No effect: a picture's size says how many tokens."),
        field("global_head_dim", &C::global_head_dim, "No effect: all layers are alike.")};
  }
};

// What it means.
struct Gemma4VisionShape {
  std::int64_t hidden = 0, inner = 0, layers = 0, heads = 1, kv_heads = 1, head_size = 4;
  std::int64_t patch = 1, pooled = 1, positions = 1;
  double eps = 1e-6, dropout = 0, theta = 100, std = 0.02;
  bool clips = false, standardises = false;
  ops::Activation activation = ops::Activation::gelu_tanh;
  ops::RmsNormForm norm() const { return {eps, ops::RmsFactor::wide_weight}; }
};
Gemma4VisionShape resolve(const Gemma4VisionConfig& config, Problems& problems);
config::Node to_hf_config(const Gemma4VisionConfig& config, const Gemma4VisionShape& shape, const std::string& dtype);

// Of unified models.
struct Gemma4PatchConfig {
  std::string model_type = "gemma4_unified_vision";
  std::int64_t patch_size = 16, pooling_kernel_size = 3, mm_embed_dim = 3840, mm_posemb_size = 1120,
               output_proj_dims = 3840;
  std::optional<std::int64_t> model_patch_size, num_soft_tokens;
  double rms_norm_eps = 1e-6, initializer_range = 0.02;

  static constexpr auto fields() {
    using C = Gemma4PatchConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "gemma4_unified_vision."),
        field("patch_size", &C::patch_size, "Pixels of a patch's side, before patches are put together.",
              {.low = 1, .high = 1024}),
        field("pooling_kernel_size", &C::pooling_kernel_size, "Rows, and columns, of patches that become one token.",
              {.low = 1, .high = 64}),
        field("mm_embed_dim", &C::mm_embed_dim, "Width of what a token's pixels become.", size),
        field("mm_posemb_size", &C::mm_posemb_size, "Tokens that a picture's row, or column, has at most.", size),
        field("output_proj_dims", &C::output_proj_dims, "Must be mm_embed_dim.", size),
        field("model_patch_size", &C::model_patch_size, "patch_size times pooling_kernel_size.", size),
        field("num_soft_tokens", &C::num_soft_tokens, "No effect: preprocessor_config.json says it."),
        field("rms_norm_eps", &C::rms_norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh positions.",
              {.low = 0, .high = 100})};
  }
};
struct Gemma4PatchShape {
  std::int64_t patch = 1;  // pixels of a token's side
  std::int64_t width = 1, positions = 1;
  double eps = 1e-6, std = 0.02;
};
Gemma4PatchShape resolve(const Gemma4PatchConfig& config, Problems& problems);
config::Node to_hf_config(const Gemma4PatchConfig& config, const std::string& dtype);

}  // namespace hone::models
