// What config.json of Qwen2-VL, Qwen2.5-VL and Qwen3-VL may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "models/llama_config.h"
#include "models/qwen_vision_config.h"

namespace hone::models {

struct QwenVlConfig {
  std::string model_type = "qwen2_5_vl";
  config::Open text_config, vision_config;
  std::int64_t image_token_id = 151655, video_token_id = 151656, vision_start_token_id = 151652,
               vision_end_token_id = 151653;
  std::optional<std::int64_t> vision_token_id;
  std::optional<bool> tie_word_embeddings;
  config::Open bos_token_id, eos_token_id, pad_token_id;

  static constexpr auto fields() {
    using C = QwenVlConfig;
    return std::tuple{
        field("model_type", &C::model_type, "qwen2_vl, qwen2_5_vl or qwen3_vl."),
        field("text_config", &C::text_config, "The model of texts: keys of qwen2, of qwen3_vl those of qwen3."),
        field("vision_config", &C::vision_config, "The vision tower."),
        field("image_token_id", &C::image_token_id, "Token that stands for pictures.", at_least(0)),
        field("video_token_id", &C::video_token_id, "Kept for others: hone reads no videos.", at_least(0)),
        field("vision_start_token_id", &C::vision_start_token_id, "Kept for others: texts have it before pictures."),
        field("vision_end_token_id", &C::vision_end_token_id, "Kept for others: texts have it behind pictures."),
        field("vision_token_id", &C::vision_token_id, "No effect."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("bos_token_id", &C::bos_token_id, "Token that begins texts."),
        field("eos_token_id", &C::eos_token_id, "Token that ends texts, or several."),
        field("pad_token_id", &C::pad_token_id, "Kept for others: text_config says which row gets no gradient.")};
  }
  void validate(Problems& problems) const;
};

// What it means.
struct QwenVlShape {
  LlamaConfig text_config;
  LlamaShape texts;
  QwenVisionConfig vision_config;
  QwenVisionShape tower;
  PictureInput input;
  std::vector<std::int64_t> sections;      // pairs of a head that turn by time, height and width
  bool by_turns = false;                   // one of each in turn, not one section behind another
  config::Open bos_token_id, eos_token_id, pad_token_id;  // of the whole
  std::vector<std::string> left_out;       // ids of texts that are no tokens of the model, as files of others have them
  std::vector<std::int64_t> axes() const;  // of each pair
};
QwenVlShape resolve(const QwenVlConfig& config, Problems& problems);
QwenVlShape qwen_vl_shape(const QwenVlConfig& config, const HeadRequest& head);  // throws Error(config)
config::Node to_hf_config(const QwenVlConfig& config, const QwenVlShape& shape, const std::string& dtype);

}  // namespace hone::models
