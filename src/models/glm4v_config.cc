// What config.json of GLM-4.1V and GLM-4.6V-Flash may say.
#include "models/glm4v_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "models/picture_keys.h"
#include "models/picture_texts.h"
#include "models/qwen_vision_config.h"
#include "models/sections.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kGlmTexts = "glm4v_text", *kGlmTower = "glm4v_vision";

bool is_glm46v(const Glm4vConfig& c) { return c.model_type == "glm46v"; }
bool has_experts(const Glm4vConfig& c) { return c.model_type == "glm4v_moe"; }

// As transformers has them where nothing is said.
std::int64_t image_of(const Glm4vConfig& c) { return c.image_token_id.value_or(has_experts(c) ? 151363 : 151343); }
std::int64_t video_of(const Glm4vConfig& c) { return c.video_token_id.value_or(has_experts(c) ? 151364 : 151344); }

void check_glm_tower(const Glm4vVisionConfig& c, Problems& problems) {
  nn::read_activation(c.hidden_act, "hidden_act", problems);
  problems.require(c.in_channels == 3, "in_channels", fmt::format("got {}, expected 3", c.in_channels));
  problems.require(c.hidden_size % c.num_heads == 0 && (c.hidden_size / c.num_heads) % 4 == 0, "hidden_size",
                   fmt::format("got {}, expected num_heads ({}) times a multiple of 4", c.hidden_size, c.num_heads));
  problems.require(c.image_size >= c.patch_size, "image_size",
                   fmt::format("got {}, expected at least patch_size ({})", c.image_size, c.patch_size));
  axial_theta(c.rope_parameters, problems);
  const auto wide = static_cast<double>(c.hidden_size), out = static_cast<double>(c.out_hidden_size);
  check_parameters(static_cast<double>(c.depth) * wide * (4 * wide + 3 * out) +
                       3 * out * static_cast<double>(c.intermediate_size),
                   "hidden_size", problems);
}

void read_glm_texts(const Glm4vConfig& c, Glm4vShape& s, Problems& problems) {
  config::Open section = without_tokens_of_pictures(c.text_config);
  s.sections = {8, 12, 12};
  bool by_turns = false;
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (Node* said = section.node.is_map() ? section.node.find(key) : nullptr) {
      config::Open rope{*said};
      take_sections(rope, s.sections, by_turns, problems);
      *said = std::move(rope.node);
    }
  s.text_config.model_type = kGlmTexts;
  leave_out_ids(section, vocab_of(section, kGlmTexts), s.left_out);
  const std::size_t before = problems.size();
  read_section(section, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  const Problems::Scope scope(problems, "text_config.");
  LlamaConfig& texts = s.text_config;
  problems.require(texts.model_type == kGlmTexts || texts.model_type == "glm4v", "model_type",
                   fmt::format("got \"{}\", expected {}", texts.model_type, kGlmTexts));
  texts.model_type = kGlmTexts;
  problems.require(texts.attention_bias.value_or(true), "attention_bias", "got false, expected true");
  texts.attention_bias.reset();
  const std::optional<std::int64_t> head = std::exchange(texts.head_dim, std::nullopt);
  if (c.tie_word_embeddings.value_or(false)) texts.tie_word_embeddings = true;
  if (!resolve_base(texts, s.texts, problems)) return;
  problems.require(head.value_or(s.texts.head_size) == s.texts.head_size, "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({})", head.value_or(0),
                               s.texts.head_size));
  refuse_rare_keys(texts, /*lists_layers=*/false, problems);
  problems.require(!by_turns, "rope_parameters.mrope_interleaved", "got true, expected false");
  s.texts.body = "model.language_model";
  s.texts.rotates_neighbours = true;
  check_sections(s.sections, s.texts, problems);
}

}  // namespace

void read_glm_tower(const config::Open& section, const std::vector<std::string>& types, Glm4vTowerShape& s,
                    Problems& problems) {
  const std::size_t before = problems.size();
  s.tower.model_type = types.front();
  read_section(section, "vision_config", s.tower, problems);
  if (problems.size() != before) return;
  const Problems::Scope scope(problems, "vision_config.");
  const std::string& type = s.tower.model_type;
  problems.require(std::find(types.begin(), types.end(), type) != types.end(), "model_type",
                   fmt::format("got \"{}\", expected {}", type, types.front()));
  check_glm_tower(s.tower, problems);
  s.theta = axial_theta(s.tower.rope_parameters, problems);
  s.side = s.tower.image_size / s.tower.patch_size;
}

static Node glm_tower_config(const Glm4vTowerShape& s, const char* type, const std::string& dtype) {
  const Glm4vVisionConfig& c = s.tower;
  Node node = Node::map();
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
  };
  put("attention_bias", c.attention_bias);
  node.at_or_add("attention_dropout") = nn::hf_float(c.attention_dropout);
  put("depth", c.depth);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("hidden_act") = hf_text(c.hidden_act);
  put("hidden_size", c.hidden_size), put("image_size", c.image_size), put("in_channels", c.in_channels);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  put("intermediate_size", c.intermediate_size);
  node.at_or_add("model_type") = hf_text(type);
  put("num_heads", c.num_heads), put("out_hidden_size", c.out_hidden_size), put("patch_size", c.patch_size);
  node.at_or_add("rms_norm_eps") = nn::hf_float(c.rms_norm_eps);
  node.at_or_add("rope_parameters") = write_axial(s.theta);
  put("spatial_merge_size", c.spatial_merge_size), put("temporal_patch_size", c.temporal_patch_size);
  return node;
}

PictureInput glm_input(const Glm4vConfig& c, const Glm4vTowerShape& s, const LlamaShape& texts, Problems& problems) {
  const Glm4vVisionConfig& tower = s.tower;
  problems.require(
      tower.out_hidden_size == texts.hidden, "vision_config.out_hidden_size",
      fmt::format("got {}, expected text_config.hidden_size ({})", tower.out_hidden_size, texts.hidden));
  PictureInput input{.token = picture_token(image_of(c), "image_token_id", texts.vocab, problems),
                     .patch_size = tower.patch_size,
                     .frames = tower.temporal_patch_size,
                     .merged = tower.spatial_merge_size};
  if (const std::int64_t video = video_of(c); video < texts.vocab) input.film = static_cast<std::int32_t>(video);
  return input;
}

Glm4vShape resolve(const Glm4vConfig& c, Problems& problems) {
  Glm4vShape s;
  const std::size_t before = problems.size();
  read_glm_tower(c.vision_config, {kGlmTower, "glm4v", "glm46v"}, s, problems);
  if (problems.size() == before) read_glm_texts(c, s, problems);
  if (problems.size() != before) return s;
  s.input = glm_input(c, s, s.texts, problems);
  return s;
}

void Glm4vVisionConfig::validate(Problems& problems) const { check_glm_tower(*this, problems); }
void Glm4vConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node glm_config(const Glm4vConfig& c, const Glm4vTowerShape& s, Node texts, bool tied, const char* tower,
                const std::string& dtype) {
  Node node = Node::map();
  const char* architecture = has_experts(c) ? "Glm4vMoeForConditionalGeneration"
                             : is_glm46v(c) ? "Glm46VForConditionalGeneration"
                                            : "Glm4vForConditionalGeneration";
  node.at_or_add("architectures") = Node::list({hf_text(architecture)});
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("image_end_token_id") = hf_number(c.image_end_token_id);
  node.at_or_add("image_start_token_id") = hf_number(c.image_start_token_id);
  node.at_or_add("image_token_id") = hf_number(image_of(c));
  node.at_or_add("model_type") = hf_text(c.model_type);
  node.at_or_add("text_config") = std::move(texts);
  node.at_or_add("tie_word_embeddings") = hf_flag(tied);
  node.at_or_add("video_end_token_id") = hf_number(c.video_end_token_id.value_or(is_glm46v(c) ? 151362 : 151342));
  node.at_or_add("video_start_token_id") = hf_number(c.video_start_token_id.value_or(is_glm46v(c) ? 151361 : 151341));
  node.at_or_add("video_token_id") = hf_number(video_of(c));
  node.at_or_add("vision_config") = glm_tower_config(s, tower, dtype);
  return node;
}

Node to_hf_config(const Glm4vConfig& c, const Glm4vShape& s, const std::string& dtype) {
  Node texts = without(to_hf_config(s.text_config, s.texts, dtype), {"architectures", "tie_word_embeddings"});
  if (const double share = s.texts.rope.partial_rotary_factor; share != 1)
    texts.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(share);
  write_sections(s.sections, /*by_turns=*/false, texts);
  return glm_config(c, s, std::move(texts), s.texts.tied, kGlmTower, dtype);
}

}  // namespace hone::models
