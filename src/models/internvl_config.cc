// What config.json of an InternVL may say.
#include "models/internvl_config.h"

#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "models/quick_gelu.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

std::int64_t one_side(const std::vector<std::int64_t>& sides, const char* key, Problems& problems) {
  const bool fits = sides.size() == 1 || (sides.size() == 2 && sides[0] == sides[1]);
  problems.require(fits, key, "expected a number, or a height and a width that are the same");
  return fits ? sides[0] : 1;
}

void read_internvl_texts(const InternVlConfig& c, InternVlShape& s, Problems& problems) {
  s.text_config.model_type = "qwen2";
  const std::size_t before = problems.size();
  read_section(c.text_config, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  check_type_of_texts(s.text_config.model_type, {"llama", "qwen2", "qwen3"}, problems);
  s.section_tied = s.text_config.tie_word_embeddings.value_or(false);
  s.text_config.tie_word_embeddings = c.tie_word_embeddings.value_or(true);  // whatever the section says
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.language_model";
}

std::int64_t squares_of(const InternVlConfig& c, const InternVlVisionShape& tower, Problems& problems) {
  const double exact = 1 / c.downsample_ratio;
  const auto side = static_cast<std::int64_t>(std::llround(exact));
  problems.require(std::abs(exact - static_cast<double>(side)) < 1e-9 && tower.side() % side == 0, "downsample_ratio",
                   fmt::format("got {}, expected 1 by a divisor of the {} patches of a tile's side", c.downsample_ratio,
                               tower.side()));
  return side;
}

Node to_hf_config(const InternVlVisionConfig& c, const InternVlVisionShape& s, const std::string& dtype) {
  Node node = Node::map();
  const auto both = [&](std::int64_t side) { return Node::list({hf_number(side), hf_number(side)}); };
  node.at_or_add("attention_bias") = hf_flag(c.attention_bias);
  node.at_or_add("attention_dropout") = nn::hf_float(c.attention_dropout);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("hidden_act") = hf_text(c.hidden_act);
  node.at_or_add("hidden_dropout_prob") = nn::hf_float(c.hidden_dropout_prob);
  node.at_or_add("hidden_size") = hf_number(s.hidden);
  node.at_or_add("image_size") = both(s.image);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("intermediate_size") = hf_number(s.inner);
  node.at_or_add("layer_norm_eps") = nn::hf_float(c.layer_norm_eps);
  node.at_or_add("layer_scale_init_value") = nn::hf_float(c.layer_scale_init_value);
  node.at_or_add("model_type") = hf_text("internvl_vision");
  node.at_or_add("norm_type") = hf_text(c.norm_type);
  node.at_or_add("num_attention_heads") = hf_number(s.heads);
  node.at_or_add("num_channels") = hf_number(c.num_channels);
  node.at_or_add("num_hidden_layers") = hf_number(s.layers);
  node.at_or_add("patch_size") = both(s.patch);
  node.at_or_add("projection_dropout") = nn::hf_float(c.projection_dropout);
  node.at_or_add("use_absolute_position_embeddings") = hf_flag(c.use_absolute_position_embeddings);
  node.at_or_add("use_mask_token") = hf_flag(c.use_mask_token);
  node.at_or_add("use_mean_pooling") = hf_flag(c.use_mean_pooling);
  node.at_or_add("use_qk_norm") = hf_flag(c.use_qk_norm);
  return node;
}

}  // namespace

InternVlVisionShape resolve(const InternVlVisionConfig& c, Problems& problems) {
  InternVlVisionShape s;
  problems.require(c.model_type == "internvl_vision", "model_type",
                   fmt::format("got \"{}\", expected internvl_vision", c.model_type));
  s.hidden = c.hidden_size, s.inner = c.intermediate_size, s.layers = c.num_hidden_layers;
  s.heads = c.num_attention_heads;
  s.image = one_side(c.image_size, "image_size", problems), s.patch = one_side(c.patch_size, "patch_size", problems);
  s.has_rms_norms = c.norm_type == "rms_norm";
  problems.require(s.hidden % s.heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads ({})", s.hidden, s.heads));
  problems.require(c.num_channels == 3, "num_channels", fmt::format("got {}, expected 3", c.num_channels));
  problems.require(s.patch <= s.image, "patch_size",
                   fmt::format("got {}, expected at most image_size ({})", s.patch, s.image));
  problems.require(s.has_rms_norms || c.norm_type == "layer_norm", "norm_type",
                   fmt::format("got \"{}\", expected layer_norm or rms_norm", c.norm_type));
  for (const auto& [key, value] :
       {std::pair{"hidden_dropout_prob", c.hidden_dropout_prob}, {"projection_dropout", c.projection_dropout}})
    problems.require(value == 0, key, fmt::format("got {}, expected 0, as published models have it", value));
  Activated(c.hidden_act, "hidden_act", problems);
  const double wide = static_cast<double>(s.hidden), inner = static_cast<double>(s.inner);
  check_parameters(static_cast<double>(s.layers) * wide * (4 * wide + 2 * inner), "hidden_size", problems);
  return s;
}

InternVlShape resolve(const InternVlConfig& c, Problems& problems) {
  InternVlShape s;
  const std::size_t before = problems.size();
  s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems);
  read_internvl_texts(c, s, problems);
  if (problems.size() != before) return s;
  Activated(c.projector_hidden_act, "projector_hidden_act", problems);
  problems.require(c.vision_feature_layer == -1, "vision_feature_layer",
                   fmt::format("got {}, expected -1, as published models have it", c.vision_feature_layer));
  problems.require(c.vision_feature_select_strategy == "default", "vision_feature_select_strategy",
                   fmt::format("got \"{}\", expected default: a square of vectors is read",
                               c.vision_feature_select_strategy));
  const std::int64_t merged = squares_of(c, s.tower, problems);
  s.input = {.token = picture_token(c.image_token_id, "image_token_id", s.texts.vocab, problems),
             .patch_size = s.tower.patch,
             .merged = merged,
             .side = s.tower.side(),
             .words = PictureWords::bracketed};
  return s;
}

void InternVlConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const InternVlConfig& c, const InternVlShape& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("architectures") = Node::list({hf_text("InternVLForConditionalGeneration")});
  write_ids(c, node);
  node.at_or_add("downsample_ratio") = nn::hf_float(c.downsample_ratio);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  const std::int64_t tokens = s.tower.side() * s.tower.side() / (s.input.merged * s.input.merged);
  node.at_or_add("image_seq_length") = hf_number(c.image_seq_length.value_or(tokens));
  node.at_or_add("image_token_id") = hf_number(s.input.token);
  node.at_or_add("model_type") = hf_text("internvl");
  node.at_or_add("projector_hidden_act") = hf_text(c.projector_hidden_act);
  node.at_or_add("text_config") = section_of_texts(to_hf_config(s.text_config, s.texts, dtype), s.section_tied);
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  node.at_or_add("vision_feature_layer") = hf_number(c.vision_feature_layer);
  node.at_or_add("vision_feature_select_strategy") = hf_text(c.vision_feature_select_strategy);
  return node;
}

}  // namespace hone::models
