// What config.json of a LLaVA may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/clip_config.h"
#include "models/llama_config.h"

namespace hone::models {

enum class FeatureSelect { default_, full };

}  // namespace hone::models

template <>
inline constexpr auto hone::config::enum_names<hone::models::FeatureSelect> =
    std::to_array<std::pair<hone::models::FeatureSelect, std::string_view>>(
        {{hone::models::FeatureSelect::default_, "default"}, {hone::models::FeatureSelect::full, "full"}});

namespace hone::models {

struct LlavaConfig {
  std::string model_type = "llava", projector_hidden_act = "gelu";
  config::Open text_config, vision_config;
  std::optional<std::int64_t> image_token_index, image_token_id, image_seq_length, vocab_size, ignore_index;
  FeatureSelect vision_feature_select_strategy = FeatureSelect::default_;
  std::vector<std::int64_t> vision_feature_layer = {-2};
  bool multimodal_projector_bias = true;
  config::Open image_grid_pinpoints;
  std::optional<bool> tie_word_embeddings, use_image_newline_parameter;
  config::Open bos_token_id, eos_token_id, pad_token_id;

  static constexpr auto fields() {
    using C = LlavaConfig;
    return std::tuple{
        field("model_type", &C::model_type, "llava or llava_next."),
        field("image_grid_pinpoints", &C::image_grid_pinpoints,
              "llava_next: heights and widths that pictures are cut into tiles at; preprocessor_config.json decides."),
        field("text_config", &C::text_config,
              "The model of texts: keys of llama, or of model_type mistral, qwen2 or qwen3."),
        field("vision_config", &C::vision_config, "The vision tower: keys of clip_vision_model."),
        field("image_token_index", &C::image_token_index, "Token that stands for pictures; default 32000.",
              at_least(0)),
        field("image_token_id", &C::image_token_id, "Another name of it.", at_least(0)),
        field("image_seq_length", &C::image_seq_length, "No effect: the tower says how many tokens a picture has."),
        field("projector_hidden_act", &C::projector_hidden_act,
              "Activation between the projector's products: gelu, gelu_pytorch_tanh, quick_gelu, silu or relu."),
        field("vision_feature_select_strategy", &C::vision_feature_select_strategy,
              "Which of the tower's vectors are taken: all but the first one (default), or all of them (full)."),
        field("vision_feature_layer", &C::vision_feature_layer,
              "Block of the tower whose output is taken, from its end below 0; of a list all of them, side by side."),
        field("multimodal_projector_bias", &C::multimodal_projector_bias, "Biases in the projector."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("use_image_newline_parameter", &C::use_image_newline_parameter, "No effect."),
        field("vocab_size", &C::vocab_size, "No effect: text_config says it."),
        field("ignore_index", &C::ignore_index, "No effect."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id, "Kept for others.")};
  }
  void validate(Problems& problems) const;
};

// What it means.
struct LlavaShape {
  LlamaConfig text_config;
  LlamaShape texts;
  ClipConfig tower;
  PictureInput input;
  std::vector<std::int64_t> layers;  // of the tower, counted from 1; 0: what the first one reads
  bool all_vectors = false;          // of the tower, and not only those of patches
};
LlavaShape resolve(const LlavaConfig& config, Problems& problems);
config::Node to_hf_config(const LlavaConfig& config, const LlavaShape& shape, const std::string& dtype);

}  // namespace hone::models
