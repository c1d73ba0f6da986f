// What config.json of a Mistral 3, with pictures, may say: Mistral Small 3.1 and 3.2, Ministral 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/ministral3_config.h"
#include "models/picture_keys.h"
#include "models/pixtral_config.h"

namespace hone::models {

struct Mistral3Config : TextIds {
  using Base = TextIds;
  std::string model_type = "mistral3", projector_hidden_act = "gelu";
  config::Open text_config, vision_config;
  std::optional<std::int64_t> image_token_index, image_token_id, vocab_size;
  std::int64_t spatial_merge_size = 2;
  std::vector<std::int64_t> vision_feature_layer = {-1};
  bool multimodal_projector_bias = false;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = Mistral3Config;
    return std::tuple_cat(
        std::tuple{
            field("model_type", &C::model_type, "mistral3."),
            field("text_config", &C::text_config, "The model of texts: keys of mistral, or of model_type ministral3."),
            field("vision_config", &C::vision_config, "The vision tower: keys of pixtral."),
            field("image_token_index", &C::image_token_index, "Token that stands for pictures; default 10.",
                  at_least(0)),
            field("image_token_id", &C::image_token_id, "Another name of it.", at_least(0)),
            field("spatial_merge_size", &C::spatial_merge_size, "Rows, and columns, of patches that are one token.",
                  {.low = 1, .high = 1000}),
            field("projector_hidden_act", &C::projector_hidden_act,
                  "Activation between the projector's products: gelu, gelu_pytorch_tanh, quick_gelu, silu or relu."),
            field("vision_feature_layer", &C::vision_feature_layer,
                  "Block of the tower whose output is taken, from its end below 0."),
            field("multimodal_projector_bias", &C::multimodal_projector_bias,
                  "Biases in the projector's last products."),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Use the embedding table as the head's weight; default true, but for a folder with a head of its "
                  "own."),
            field("vocab_size", &C::vocab_size, "No effect: text_config says it.")},
        TextIds::fields());
  }
  void validate(Problems& problems) const;
};

// What it means.
struct Mistral3Shape {
  LlamaConfig text_config;  // of a Ministral 3, which has the same keys, too
  LlamaShape texts;
  bool section_tied = false;  // what text_config says of its head, which counts for nobody
  PixtralConfig vision_config;
  PixtralShape tower;
  std::int64_t layer = 0;  // of the tower, counted from 1; 0: what the first one reads
  PictureInput input;
};
Mistral3Shape resolve(const Mistral3Config& config, Problems& problems);
config::Node to_hf_config(const Mistral3Config& config, const Mistral3Shape& shape, const std::string& dtype);

}  // namespace hone::models
