// What config.json of GLM-4.1V and GLM-4.6V-Flash may say, and of GLM-4.5V and GLM-4.6V, but for the section of texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/llama_config.h"

namespace hone::models {

struct Glm4vVisionConfig {
  std::string model_type = "glm4v_vision", hidden_act = "silu";
  std::int64_t depth = 24, hidden_size = 1536, num_heads = 12, in_channels = 3, image_size = 336, patch_size = 14,
               spatial_merge_size = 2, temporal_patch_size = 2, out_hidden_size = 4096, intermediate_size = 13696;
  bool attention_bias = false;
  double attention_dropout = 0, rms_norm_eps = 1e-5, initializer_range = 0.02;
  config::Open rope_parameters;

  static constexpr auto fields() {
    using C = Glm4vVisionConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, side{.low = 1, .high = 65536};
    return std::tuple{
        field("model_type", &C::model_type,
              "Must be glm4v_vision, glm4v_moe_vision in glm4v_moe; older files call it as the whole."),
        field("depth", &C::depth, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_heads", &C::num_heads, "Attention heads.", side),
        field("hidden_act", &C::hidden_act, "Activation of the gated MLPs."),
        field("attention_bias", &C::attention_bias, "Biases of queries, keys and values."),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("in_channels", &C::in_channels, "Must be 3."),
        field("image_size", &C::image_size, "With patch_size says how many learned positions a side has.", size),
        field("patch_size", &C::patch_size, "Pixels of a patch's side.", side),
        field("rms_norm_eps", &C::rms_norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
        field("spatial_merge_size", &C::spatial_merge_size, "Rows, and columns, of patches that become one token.",
              {.low = 1, .high = 64}),
        field("temporal_patch_size", &C::temporal_patch_size, "Frames of a patch: a picture is repeated so often.",
              {.low = 1, .high = 64}),
        field("out_hidden_size", &C::out_hidden_size, "Width of what the text model reads, and inside a block's MLP.",
              size),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP behind the blocks.", size),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("rope_parameters", &C::rope_parameters, "Rotary position embedding of rows and columns.")};
  }
  void validate(Problems& problems) const;
};

struct Glm4vConfig {
  std::string model_type = "glm4v";
  config::Open text_config, vision_config;
  std::optional<std::int64_t> image_token_id, video_token_id;
  std::int64_t image_start_token_id = 151339, image_end_token_id = 151340;
  std::optional<std::int64_t> video_start_token_id, video_end_token_id;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = Glm4vConfig;
    return std::tuple{
        field("model_type", &C::model_type, "glm4v, glm46v or glm4v_moe."),
        field("text_config", &C::text_config, "The model of texts: keys of glm4, in glm4v_moe those of glm4_moe."),
        field("vision_config", &C::vision_config, "The vision tower."),
        field("image_token_id", &C::image_token_id,
              "Token that stands for pictures; absent: 151343, in glm4v_moe 151363.", at_least(0)),
        field("video_token_id", &C::video_token_id,
              "Kept for others: hone reads no videos; absent: the one behind the pictures'.", at_least(0)),
        field("image_start_token_id", &C::image_start_token_id, "Kept for others: texts have it before pictures."),
        field("image_end_token_id", &C::image_end_token_id, "Kept for others: texts have it behind pictures."),
        field("video_start_token_id", &C::video_start_token_id, "Kept for others."),
        field("video_end_token_id", &C::video_end_token_id, "Kept for others."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight.")};
  }
  void validate(Problems& problems) const;
};

// What it means.
struct Glm4vTowerShape {
  Glm4vVisionConfig tower;
  double theta = 10000;   // of the tower's rotations
  std::int64_t side = 0;  // of the square of learned positions
};
struct Glm4vShape : Glm4vTowerShape {
  LlamaConfig text_config;
  LlamaShape texts;
  std::vector<std::int64_t> sections;  // pairs of a head that turn by time, height and width
  std::vector<std::string> left_out;   // ids of texts that are no tokens of the model
  PictureInput input;
};
Glm4vShape resolve(const Glm4vConfig& config, Problems& problems);
// What a model of this tower and these texts takes for pictures.
PictureInput glm_input(const Glm4vConfig& config, const Glm4vTowerShape& shape, const LlamaShape& texts,
                       Problems& problems);
// The section vision_config, whose model_type is the first of these, or another one; and how it is written.
void read_glm_tower(const config::Open& section, const std::vector<std::string>& types, Glm4vTowerShape& shape,
                    Problems& problems);
// The whole. texts: its section text_config; tower: the type of its vision_config.
config::Node glm_config(const Glm4vConfig& config, const Glm4vTowerShape& shape, config::Node texts, bool tied,
                        const char* tower, const std::string& dtype);
config::Node to_hf_config(const Glm4vConfig& config, const Glm4vShape& shape, const std::string& dtype);

}  // namespace hone::models
