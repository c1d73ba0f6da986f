// What config.json of ModernBERT may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/op_options.h"
#include "models/encoder_keys.h"
#include "models/modernbert_keys.h"

namespace hone::models {

enum class Pooling { cls, mean };

}  // namespace hone::models

template <>
inline constexpr auto hone::config::enum_names<hone::models::Pooling> =
    std::to_array<std::pair<hone::models::Pooling, std::string_view>>({{hone::models::Pooling::cls, "cls"},
                                                                       {hone::models::Pooling::mean, "mean"}});

namespace hone::models {

struct ModernBertConfig : ModernKeys<LabelKeys> {
  using Base = ModernKeys<LabelKeys>;
  std::string model_type = "modernbert";
  Pooling classifier_pooling = Pooling::cls;
  bool deterministic_flash_attn = false, sparse_prediction = false, tie_word_embeddings = true;
  std::int64_t sparse_pred_ignore_index = -100, local_attention = 128;
  std::optional<bool> gradient_checkpointing;
  config::Open pad_token_id{config::Node::scalar("50283")};

  static constexpr auto fields() {
    using C = ModernBertConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("model_type", &C::model_type, "modernbert."),
            field("local_attention", &C::local_attention,
                  "A token of a sliding layer sees half so many on each side, and itself.",
                  {.low = 0, .high = 2147483647}),
            field("classifier_pooling", &C::classifier_pooling,
                  "What a classification head reads: the first token (cls), or the mean of all."),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Of the head for masked tokens, where it must be true."),
            field("sparse_prediction", &C::sparse_prediction,
                  "No effect: only tokens that are asked for are computed."),
            field("sparse_pred_ignore_index", &C::sparse_pred_ignore_index, "No effect."),
            field("deterministic_flash_attn", &C::deterministic_flash_attn, "No effect; run.deterministic says it."),
            field("gradient_checkpointing", &C::gradient_checkpointing,
                  "No effect; trainer.checkpoint_blocks does it."),
            field("pad_token_id", &C::pad_token_id,
                  "Padding; its row of the embedding table gets no gradient from look-ups.")});
  }
  void validate(Problems& problems) const;
};

// What it means.
struct ModernBertShape : EncoderShape {
  ops::Activation head_activation = ops::Activation::gelu;
  std::vector<bool> slides;  // per layer
  std::int64_t window = 0;   // of those that slide, as ops::Mask's
  ModernRopes ropes;
};
ModernBertShape resolve(const ModernBertConfig& config, const HeadRequest& head);  // throws Error(config)

}  // namespace hone::models
