// What config.json of a Mistral 3, with pictures, may say.
#include "models/mistral3_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/quick_gelu.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kMistral3Image = 10;
constexpr const char *kMistral = "mistral", *kMinistral3 = "ministral3";

// Mistral Small 3.1's numbers, which transformers takes where a section is absent.
LlamaConfig published_mistral3_texts() {
  LlamaConfig c;
  c.model_type = kMistral;
  c.vocab_size = 131072, c.hidden_size = 5120, c.intermediate_size = 32768, c.num_hidden_layers = 40;
  c.num_attention_heads = 32, c.num_key_value_heads.node = config::Values<std::int64_t>::write(8), c.head_dim = 128;
  c.max_position_embeddings = 131072, c.rms_norm_eps = 1e-5, c.rope_theta = 1e9;
  c.sliding_window.node = Node();
  return c;
}

PixtralConfig published_pixtral() {
  PixtralConfig c;
  c.patch_size = 14, c.image_size = 1540;
  return c;
}

bool is_ministral3(const LlamaConfig& c) { return c.model_type == kMinistral3; }

// Each kind has checks of its own, which are made where a section is read.
void read_kind(const config::Open& section, LlamaConfig& c, Problems& problems) {
  const Node* type = section.node.is_map() ? section.node.find("model_type") : nullptr;
  if (!type || type->kind() != Node::Kind::scalar || type->text() != kMinistral3)
    return read_section(section, "text_config", c, problems);
  Ministral3Config read;
  read_section(section, "text_config", read, problems);
  c = read;
}

LlamaShape mistral3_texts_of(const LlamaConfig& c, Problems& problems) {
  const Problems::Scope scope(problems, "text_config.");
  return is_ministral3(c) ? resolve(Ministral3Config{c}, problems) : resolve(c, problems);
}

void read_mistral3_texts(const Mistral3Config& c, Mistral3Shape& s, Problems& problems) {
  if (c.text_config.node.is_null()) s.text_config = published_mistral3_texts();
  s.text_config.model_type = kMistral;
  const std::size_t before = problems.size();
  read_kind(c.text_config, s.text_config, problems);
  if (problems.size() != before) return;
  check_type_of_texts(s.text_config.model_type, {kMistral, kMinistral3}, problems);
  if (problems.size() != before) return;
  s.section_tied = s.text_config.tie_word_embeddings.value_or(false);
  s.text_config.tie_word_embeddings = c.tie_word_embeddings.value_or(true);  // whatever the section says
  s.texts = mistral3_texts_of(s.text_config, problems);
  s.texts.body = "model.language_model";
}

std::int64_t mistral3_layer(const Mistral3Config& c, std::int64_t count, Problems& problems) {
  problems.require(c.vision_feature_layer.size() == 1, "vision_feature_layer",
                   "expected one layer: the projector reads one");
  if (c.vision_feature_layer.size() != 1) return 0;
  const std::int64_t layer = c.vision_feature_layer[0];
  const bool there = layer >= -count - 1 && layer <= count;
  problems.require(there, "vision_feature_layer", fmt::format("got {}, expected {} to {}", layer, -count - 1, count));
  return !there ? 0 : layer < 0 ? layer + count + 1 : layer;
}

}  // namespace

Mistral3Shape resolve(const Mistral3Config& c, Problems& problems) {
  Mistral3Shape s;
  const std::size_t before = problems.size();
  if (c.vision_config.node.is_null()) s.vision_config = published_pixtral();
  s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems);
  read_mistral3_texts(c, s, problems);
  if (problems.size() != before) return s;
  Activated(c.projector_hidden_act, "projector_hidden_act", problems);
  s.layer = mistral3_layer(c, s.tower.layers, problems);
  const std::int64_t token = c.image_token_index.value_or(c.image_token_id.value_or(kMistral3Image));
  s.input = {.token = picture_token(token, "image_token_index", s.texts.vocab, problems),
             .patch_size = s.tower.patch,
             .merged = c.spatial_merge_size,
             .words = PictureWords::rows};
  return s;
}

void Mistral3Config::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Mistral3Config& c, const Mistral3Shape& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("architectures") = Node::list({hf_text("Mistral3ForConditionalGeneration")});
  write_ids(c, node);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("image_token_index") = hf_number(s.input.token);
  node.at_or_add("model_type") = hf_text("mistral3");
  node.at_or_add("multimodal_projector_bias") = hf_flag(c.multimodal_projector_bias);
  node.at_or_add("projector_hidden_act") = hf_text(c.projector_hidden_act);
  node.at_or_add("spatial_merge_size") = hf_number(c.spatial_merge_size);
  Node texts = is_ministral3(s.text_config) ? to_hf_config(Ministral3Config{s.text_config}, s.texts, dtype)
                                            : to_hf_config(s.text_config, s.texts, dtype);
  node.at_or_add("text_config") = section_of_texts(std::move(texts), s.section_tied);
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  node.at_or_add("vision_feature_layer") = hf_number(c.vision_feature_layer[0]);
  return node;
}

}  // namespace hone::models
