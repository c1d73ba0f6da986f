// What config.json of a Gemma 4 that reads pictures may say: of a text model, of how it sees, and of how it hears.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "models/gemma4_audio.h"
#include "models/gemma4_config.h"
#include "models/gemma4_vision_config.h"
#include "models/picture_keys.h"

namespace hone::models {

struct Gemma4WholeConfig : TextIds {
  using Base = TextIds;
  std::string model_type = "gemma4";
  config::Open text_config, vision_config, audio_config;
  std::optional<std::int64_t> boi_token_id, eoi_token_id, image_token_id, video_token_id, boa_token_id, eoa_token_index,
      eoa_token_id, audio_token_id, vision_soft_tokens_per_image;
  double initializer_range = 0.02;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = Gemma4WholeConfig;
    return std::tuple_cat(
        std::tuple{
            field("model_type", &C::model_type, "gemma4 or gemma4_unified."),
            field("text_config", &C::text_config, "The model of texts: keys of gemma4_text or gemma4_unified_text."),
            field("vision_config", &C::vision_config,
                  "How it sees: keys of a vision tower; in gemma4_unified, which has none, of products of pixels."),
            field("audio_config", &C::audio_config,
                  "How it hears; null: it does not. Its weights are kept as they are."),
            field("image_token_id", &C::image_token_id,
                  "Token that is in texts where a picture belongs, and stands for each of its tokens; default 258880.",
                  at_least(0)),
            field("boi_token_id", &C::boi_token_id, "Token before a picture; default 255999.", at_least(0)),
            field("eoi_token_id", &C::eoi_token_id, "Token behind a picture; default 258882.", at_least(0)),
            field("video_token_id", &C::video_token_id,
                  "Token that stands for films, which are not read; default 258884.", at_least(0)),
            field("audio_token_id", &C::audio_token_id,
                  "Token that stands for sounds, which are not read; default 258881.", at_least(0)),
            field("boa_token_id", &C::boa_token_id, "Kept for others: the token before a sound; default 256000.",
                  at_least(0)),
            field("eoa_token_index", &C::eoa_token_index, "Kept for others: the token behind a sound; default 258883.",
                  at_least(0)),
            field("eoa_token_id", &C::eoa_token_id, "Another name of eoa_token_index.", at_least(0)),
            field("vision_soft_tokens_per_image", &C::vision_soft_tokens_per_image,
                  "No effect: preprocessor_config.json says how many tokens a picture has at most."),
            field("initializer_range", &C::initializer_range, "Standard deviation of what brings pictures to texts.",
                  {.low = 0, .high = 100}),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Use the embedding table as the head's weight; default true.")},
        TextIds::fields());
  }
  void validate(Problems& problems) const;
  bool is_unified() const { return model_type == "gemma4_unified"; }
};

// What it means.
struct Gemma4WholeShape {
  Gemma4Config text_config;
  Gemma4Shape texts;
  Gemma4VisionConfig vision_config;
  Gemma4VisionShape tower;
  Gemma4PatchConfig patch_config;  // these two of unified models
  Gemma4PatchShape patches;
  std::optional<Gemma4AudioConfig> audio_config;
  std::optional<Gemma4SoundConfig> sound_config;  // of unified models
  PictureInput input;
  bool see_each_other = false;  // a picture's tokens, in layers with a window
};
Gemma4WholeShape resolve(const Gemma4WholeConfig& config, Problems& problems);
config::Node to_hf_config(const Gemma4WholeConfig& config, const Gemma4WholeShape& shape, const std::string& dtype);

}  // namespace hone::models
