// What config.json of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/llama_config.h"
#include "models/picture_keys.h"
#include "models/qwen3_5_config.h"
#include "models/qwen3_moe_config.h"
#include "models/qwen_vision_config.h"

namespace hone::models {

struct QwenVlConfig : TextIds {
  using Base = TextIds;
  std::string model_type = "qwen2_5_vl";
  config::Open text_config, vision_config;
  std::optional<std::int64_t> image_token_id, video_token_id, vision_start_token_id, vision_end_token_id,
      vision_token_id;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = QwenVlConfig;
    return std::tuple_cat(
        std::tuple{
            field("model_type", &C::model_type,
                  "qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_vl_moe, qwen3_5 or qwen3_5_moe."),
            field("text_config", &C::text_config,
                  "The model of texts: keys of qwen2, of qwen3_vl those of qwen3, of qwen3_vl_moe those of "
                  "qwen3_moe, of qwen3_5 those of qwen3_5_text, of qwen3_5_moe those of qwen3_5_moe_text."),
            field("vision_config", &C::vision_config, "The vision tower."),
            field("image_token_id", &C::image_token_id,
                  "Token that stands for pictures; default 151655, in qwen3_5 and qwen3_5_moe 248056.", at_least(0)),
            field("video_token_id", &C::video_token_id, "Kept for others: hone reads no videos.", at_least(0)),
            field("vision_start_token_id", &C::vision_start_token_id,
                  "Kept for others: texts have it before pictures."),
            field("vision_end_token_id", &C::vision_end_token_id, "Kept for others: texts have it behind pictures."),
            field("vision_token_id", &C::vision_token_id, "No effect."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight.")},
        TextIds::fields());
  }
  void validate(Problems& problems) const;
};

// What it means, but of texts.
struct QwenVlParts {
  QwenVisionConfig vision_config;
  QwenVisionShape tower;
  PictureInput input;
  struct Tokens {
    std::int64_t image = 151655, video = 151656, start = 151652, end = 151653;
  } tokens;
  std::vector<std::int64_t> sections;      // pairs of a head that turn by time, height and width
  bool by_turns = false;                   // one of each in turn, not one section behind another
  config::Open bos_token_id, eos_token_id, pad_token_id;  // of the whole
  std::optional<bool> texts_tied;  // what text_config says of the head, where only what stands above it counts
  std::vector<std::string> left_out;       // ids of texts that are no tokens of the model, as files of others have them
  std::vector<std::int64_t> axes() const;  // of each pair
};

template <class C, class S>
struct QwenVlShapeOf : QwenVlParts {
  C text_config;
  S texts;
};
using QwenVlShape = QwenVlShapeOf<LlamaConfig, LlamaShape>;              // qwen2_vl, qwen2_5_vl, qwen3_vl
using Qwen3VlMoeShape = QwenVlShapeOf<Qwen3MoeConfig, Qwen3MoeShape>;    // qwen3_vl_moe
using Qwen35VlShape = QwenVlShapeOf<Qwen35Config, Qwen35Shape>;          // qwen3_5
using Qwen35MoeVlShape = QwenVlShapeOf<Qwen35MoeConfig, Qwen35Shape>;    // qwen3_5_moe

// Shape: the one of the four that is of the configuration's type.
template <class Shape>
Shape resolve_as(const QwenVlConfig& config, Problems& problems);
// Says what is left out, too. Throws Error(config): a problem, or a head for labels that is asked for.
template <class Shape>
Shape qwen_vl_shape(const QwenVlConfig& config, const HeadRequest& head);
template <class C, class S>
config::Node to_hf_config(const QwenVlConfig& config, const QwenVlShapeOf<C, S>& shape, const std::string& dtype);

}  // namespace hone::models
