// What config.json of an LFM2-VL may say.
#include "models/lfm2_vl_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/quick_gelu.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kLfm2Image = 396;
constexpr const char* kLfm2Tower = "siglip2_vision_model";

void read_lfm2_vl_texts(const Lfm2VlConfig& c, Lfm2VlShape& s, Problems& problems) {
  s.text_config.model_type = "lfm2";
  const std::size_t before = problems.size();
  read_section(c.text_config, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  check_type_of_texts(s.text_config.model_type, {"lfm2"}, problems);
  if (problems.size() != before) return;
  s.section_tied = s.text_config.tie_embedding.value_or(s.text_config.tie_word_embeddings.value_or(true));
  s.text_config.tie_embedding.reset();
  // Whatever the section says.
  s.text_config.tie_word_embeddings = c.tie_embedding.value_or(c.tie_word_embeddings.value_or(true));
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.language_model";
}

}  // namespace

Lfm2VlShape resolve(const Lfm2VlConfig& c, Problems& problems) {
  Lfm2VlShape s;
  s.vision_config.model_type = kLfm2Tower;
  const std::size_t before = problems.size();
  s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems, kLfm2Tower);
  read_lfm2_vl_texts(c, s, problems);
  if (problems.size() != before) return s;
  Activated(c.projector_hidden_act, "projector_hidden_act", problems);
  problems.require(c.use_image_special_tokens, "use_image_special_tokens",
                   "got false, expected true: published models have tokens beside pictures");
  const std::int64_t token = c.image_token_id.value_or(c.image_token_index.value_or(kLfm2Image));
  s.input = {.token = picture_token(token, "image_token_id", s.texts.vocab, problems),
             .patch_size = s.tower.patch,
             .merged = c.downsample_factor,
             .words = PictureWords::named};
  return s;
}

void Lfm2VlConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Lfm2VlConfig& c, const Lfm2VlShape& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("architectures") = Node::list({hf_text("Lfm2VlForConditionalGeneration")});
  write_ids(c, node);
  node.at_or_add("downsample_factor") = hf_number(c.downsample_factor);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("image_token_id") = hf_number(s.input.token);
  node.at_or_add("model_type") = hf_text("lfm2_vl");
  node.at_or_add("projector_bias") = hf_flag(c.projector_bias);
  node.at_or_add("projector_hidden_act") = hf_text(c.projector_hidden_act);
  node.at_or_add("projector_hidden_size") = hf_number(c.projector_hidden_size);
  node.at_or_add("projector_use_layernorm") = hf_flag(c.projector_use_layernorm);
  node.at_or_add("text_config") = section_of_texts(to_hf_config(s.text_config, s.texts, dtype), s.section_tied);
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  return node;
}

}  // namespace hone::models
