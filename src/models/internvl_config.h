// What config.json of an InternVL, in transformers' form, may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/llama_config.h"
#include "models/picture_keys.h"

namespace hone::models {

struct InternVlVisionConfig {
  std::string model_type = "internvl_vision", hidden_act = "gelu", norm_type = "layer_norm";
  std::int64_t hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, num_attention_heads = 16,
               num_channels = 3;
  std::vector<std::int64_t> image_size = {448, 448}, patch_size = {14, 14};  // height and width, or a number
  double attention_dropout = 0, hidden_dropout_prob = 0, projection_dropout = 0, dropout = 0,
         initializer_range = 0.02, layer_norm_eps = 1e-6, layer_scale_init_value = 0.1;
  bool attention_bias = false, use_qk_norm = false, use_mask_token = false, use_absolute_position_embeddings = true,
       use_mean_pooling = true;
  std::optional<double> initializer_factor, drop_path_rate;

  static constexpr auto fields() {
    using C = InternVlVisionConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, side{.low = 1, .high = 65536};
    return std::tuple{
        field("model_type", &C::model_type, "internvl_vision."),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("num_channels", &C::num_channels, "Must be 3."),
        field("image_size", &C::image_size, "Pixels of a tile's height and width, which must be the same.", side),
        field("patch_size", &C::patch_size, "Pixels of a patch's, likewise.", side),
        field("hidden_act", &C::hidden_act,
              "Activation of the MLP: gelu, gelu_pytorch_tanh, quick_gelu, silu or relu."),
        field("norm_type", &C::norm_type, "What is before attention and the MLP: layer_norm or rms_norm."),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in these.", {.low = 0, .high = 1}),
        field("layer_scale_init_value", &C::layer_scale_init_value,
              "Fresh factors of what attention and the MLP add.", {.low = -100, .high = 100}),
        field("attention_bias", &C::attention_bias, "Biases of queries, keys and values."),
        field("use_qk_norm", &C::use_qk_norm, "RMSNorm of queries and keys, over all heads."),
        field("use_mask_token", &C::use_mask_token, "Whether there is a vector of masked patches, which is kept."),
        field("use_absolute_position_embeddings", &C::use_absolute_position_embeddings, "Learned positions."),
        field("use_mean_pooling", &C::use_mean_pooling, "true: there is no norm behind the last block."),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("hidden_dropout_prob", &C::hidden_dropout_prob, "Must be 0."),
        field("projection_dropout", &C::projection_dropout, "Must be 0."),
        field("dropout", &C::dropout, "No effect."),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("initializer_factor", &C::initializer_factor, "No effect."),
        field("drop_path_rate", &C::drop_path_rate, "No effect.")};
  }
};

struct InternVlVisionShape {
  std::int64_t hidden = 0, inner = 0, layers = 0, heads = 1, image = 1, patch = 1;
  bool has_rms_norms = false;
  std::int64_t head_size() const { return hidden / heads; }
  std::int64_t side() const { return image / patch; }             // patches of a tile's side
  std::int64_t positions() const { return side() * side() + 1; }  // the first one is of the tile as a whole
};

InternVlVisionShape resolve(const InternVlVisionConfig& config, Problems& problems);

struct InternVlConfig : TextIds {
  using Base = TextIds;
  std::string model_type = "internvl", projector_hidden_act = "gelu", vision_feature_select_strategy = "default";
  config::Open text_config, vision_config;
  std::int64_t image_token_id = 151667, vision_feature_layer = -1;
  std::optional<std::int64_t> image_seq_length, vocab_size;
  double downsample_ratio = 0.5;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = InternVlConfig;
    return std::tuple_cat(
        std::tuple{
            field("model_type", &C::model_type, "internvl."),
            field("text_config", &C::text_config,
                  "The model of texts: keys of qwen2, or of model_type llama or qwen3."),
            field("vision_config", &C::vision_config, "The vision tower: keys of internvl_vision."),
            field("image_token_id", &C::image_token_id, "Token that stands for pictures.", at_least(0)),
            field("image_seq_length", &C::image_seq_length, "No effect: the tower says how many tokens a tile has."),
            field("downsample_ratio", &C::downsample_ratio,
                  "1 by the rows, and columns, of patches that are one token.", {.low = 0.001, .high = 1}),
            field("projector_hidden_act", &C::projector_hidden_act,
                  "Activation between the projector's products: gelu, gelu_pytorch_tanh, quick_gelu, silu or relu."),
            field("vision_feature_layer", &C::vision_feature_layer, "Must be -1: the tower's last vectors are taken."),
            field("vision_feature_select_strategy", &C::vision_feature_select_strategy,
                  "Must be default: all of these but the first one."),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Use the embedding table as the head's weight; default true, but for a folder with a head of its "
                  "own."),
            field("vocab_size", &C::vocab_size, "No effect: text_config says it.")},
        TextIds::fields());
  }
  void validate(Problems& problems) const;
};

// What it means.
struct InternVlShape {
  LlamaConfig text_config;
  LlamaShape texts;
  bool section_tied = false;  // what text_config says of its head, which counts for nobody
  InternVlVisionConfig vision_config;
  InternVlVisionShape tower;
  PictureInput input;
};
InternVlShape resolve(const InternVlConfig& config, Problems& problems);
config::Node to_hf_config(const InternVlConfig& config, const InternVlShape& shape, const std::string& dtype);

}  // namespace hone::models
