// What config.json of a Gemma 3 that reads pictures may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "models/gemma_config.h"
#include "models/picture_keys.h"
#include "models/siglip_config.h"

namespace hone::models {

struct Gemma3Config : TextIds {
  using Base = TextIds;
  std::string model_type = "gemma3";
  config::Open text_config, vision_config;
  std::int64_t mm_tokens_per_image = 256;
  std::optional<std::int64_t> boi_token_index, eoi_token_index, image_token_index, image_token_id, boi_token_id,
      eoi_token_id;
  double initializer_range = 0.02;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = Gemma3Config;
    return std::tuple_cat(
        std::tuple{
            field("model_type", &C::model_type, "gemma3."),
            field("text_config", &C::text_config, "The model of texts: keys of gemma3_text."),
            field("vision_config", &C::vision_config, "The vision tower: keys of siglip_vision_model."),
            field("mm_tokens_per_image", &C::mm_tokens_per_image, "Tokens of a picture, a square number.",
                  {.low = 1, .high = 1000000}),
            field("boi_token_index", &C::boi_token_index,
                  "Token before a picture, which alone is in texts where one belongs; default 255999.", at_least(0)),
            field("eoi_token_index", &C::eoi_token_index, "Token behind a picture; default 256000.", at_least(0)),
            field("image_token_index", &C::image_token_index, "Token that stands for pictures; default 262144.",
                  at_least(0)),
            field("image_token_id", &C::image_token_id, "Another name of it.", at_least(0)),
            field("boi_token_id", &C::boi_token_id, "Another name of boi_token_index.", at_least(0)),
            field("eoi_token_id", &C::eoi_token_id, "Another name of eoi_token_index.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Kept for others: text_config says it.",
                  {.low = 0, .high = 100}),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Use the embedding table as the head's weight; default true.")},
        TextIds::fields());
  }
  void validate(Problems& problems) const;
};

// What it means.
struct Gemma3Shape {
  GemmaConfig text_config;
  GemmaShape texts;
  SiglipConfig vision_config;
  SiglipShape tower;
  PictureInput input;
  std::int64_t pooled = 1;  // rows, and columns, of patches whose mean is a token
};
Gemma3Shape resolve(const Gemma3Config& config, Problems& problems);
config::Node to_hf_config(const Gemma3Config& config, const Gemma3Shape& shape, const std::string& dtype);

}  // namespace hone::models
