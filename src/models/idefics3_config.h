// What config.json of an Idefics 3 or a SmolVLM may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "models/llama_config.h"
#include "models/siglip_config.h"

namespace hone::models {

struct Idefics3Config {
  std::string model_type = "idefics3";
  config::Open text_config, vision_config;
  std::int64_t image_token_id = 128257, scale_factor = 2;
  std::optional<std::int64_t> vocab_size;
  std::int64_t kept_pad_token_id = 128002;
  std::optional<bool> tie_word_embeddings, use_reentrant_checkpointing;
  config::Open pad_token_id;

  static constexpr auto fields() {
    using C = Idefics3Config;
    return std::tuple{
        field("model_type", &C::model_type, "idefics3 or smolvlm."),
        field("text_config", &C::text_config, "The model of texts: keys of llama, or of model_type mistral or qwen2."),
        field("vision_config", &C::vision_config, "The vision tower: keys of idefics3_vision or smolvlm_vision."),
        field("image_token_id", &C::image_token_id, "Token that stands for pictures.", at_least(0)),
        field("scale_factor", &C::scale_factor, "Rows, and columns, of patches that are one token.",
              {.low = 1, .high = 1000}),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("vocab_size", &C::vocab_size, "No effect: text_config says it."),
        field("use_reentrant_checkpointing", &C::use_reentrant_checkpointing, "No effect."),
        field("_pad_token_id", &C::kept_pad_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id, "No effect: text_config says it.")};
  }
  void validate(Problems& problems) const;
};

// What it means.
struct Idefics3Shape {
  LlamaConfig text_config;
  LlamaShape texts;
  bool section_tied = false;  // what text_config says of its head, which counts for nobody
  SiglipConfig vision_config;
  SiglipShape tower;
  PictureInput input;
};
Idefics3Shape resolve(const Idefics3Config& config, Problems& problems);
config::Node to_hf_config(const Idefics3Config& config, const Idefics3Shape& shape, const std::string& dtype);

}  // namespace hone::models
