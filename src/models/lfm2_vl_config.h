// What config.json of an LFM2-VL may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "models/lfm2_config.h"
#include "models/picture_keys.h"
#include "models/siglip_config.h"

namespace hone::models {

struct Lfm2VlConfig : TextIds {
  using Base = TextIds;
  std::string model_type = "lfm2_vl", projector_hidden_act = "gelu";
  config::Open text_config, vision_config;
  std::optional<std::int64_t> image_token_id, image_token_index, vocab_size;
  std::int64_t projector_hidden_size = 2560, downsample_factor = 2;
  bool projector_bias = true, projector_use_layernorm = true, use_image_special_tokens = true;
  std::optional<bool> tie_word_embeddings, tie_embedding;
  // Of published files; preprocessor_config.json says these.
  std::optional<bool> do_image_splitting, use_thumbnail;
  std::optional<std::int64_t> encoder_patch_size, max_image_tokens, min_image_tokens, max_num_patches, max_tiles,
      min_tiles, tile_size, vision_feature_layer;
  std::optional<double> max_pixels_tolerance;

  static constexpr auto fields() {
    using C = Lfm2VlConfig;
    constexpr const char* elsewhere = "No effect: preprocessor_config.json says it.";
    return std::tuple_cat(
        std::tuple{
            field("model_type", &C::model_type, "lfm2_vl."),
            field("text_config", &C::text_config, "The model of texts: keys of lfm2."),
            field("vision_config", &C::vision_config, "The vision tower: keys of siglip2_vision_model."),
            field("image_token_id", &C::image_token_id, "Token that stands for pictures; default 396.", at_least(0)),
            field("image_token_index", &C::image_token_index, "Another name of it.", at_least(0)),
            field("downsample_factor", &C::downsample_factor, "Rows, and columns, of patches that are one token.",
                  {.low = 1, .high = 1000}),
            field("projector_hidden_size", &C::projector_hidden_size, "Width inside the projector.",
                  {.low = 1, .high = 2147483647}),
            field("projector_hidden_act", &C::projector_hidden_act,
                  "Activation between the projector's products: gelu, gelu_pytorch_tanh, quick_gelu, silu or relu."),
            field("projector_bias", &C::projector_bias, "Biases in the projector."),
            field("projector_use_layernorm", &C::projector_use_layernorm,
                  "A LayerNorm before the projector's products."),
            field("use_image_special_tokens", &C::use_image_special_tokens,
                  "Must be true: tokens stand beside pictures in texts."),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Use the embedding table as the head's weight; default true."),
            field("tie_embedding", &C::tie_embedding, "Another name of it, which wins."),
            field("vocab_size", &C::vocab_size, "No effect: text_config says it."),
            field("do_image_splitting", &C::do_image_splitting, elsewhere),
            field("use_thumbnail", &C::use_thumbnail, elsewhere),
            field("encoder_patch_size", &C::encoder_patch_size, elsewhere),
            field("max_image_tokens", &C::max_image_tokens, elsewhere),
            field("min_image_tokens", &C::min_image_tokens, elsewhere),
            field("max_num_patches", &C::max_num_patches, elsewhere),
            field("max_tiles", &C::max_tiles, elsewhere),
            field("min_tiles", &C::min_tiles, elsewhere),
            field("tile_size", &C::tile_size, elsewhere),
            field("max_pixels_tolerance", &C::max_pixels_tolerance, elsewhere),
            field("vision_feature_layer", &C::vision_feature_layer, "No effect: the tower's last vectors are taken.")},
        TextIds::fields());
  }
  void validate(Problems& problems) const;
};

// What it means.
struct Lfm2VlShape {
  Lfm2Config text_config;
  Lfm2Shape texts;
  bool section_tied = true;  // what text_config says of its head, which counts for nobody
  SiglipConfig vision_config;
  SiglipShape tower;
  PictureInput input;
};
Lfm2VlShape resolve(const Lfm2VlConfig& config, Problems& problems);
config::Node to_hf_config(const Lfm2VlConfig& config, const Lfm2VlShape& shape, const std::string& dtype);

}  // namespace hone::models
