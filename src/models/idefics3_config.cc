// What config.json of an Idefics 3 or a SmolVLM may say.
#include "models/idefics3_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/picture_keys.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

// Which published files have in text_config: how these were trained, and what other models would do.
constexpr auto kOfTraining = std::to_array<std::string_view>(
    {"_flash_attn_2_enabled", "is_llama_config", "neftune_noise_alpha", "perceiver_config", "pixel_shuffle_factor",
     "transformers.js_config", "use_reentrant_checkpointing"});
constexpr std::array<std::string_view, 3> kOnlyFalse{"qk_layer_norms", "rope_interleaved", "use_resampler"};

bool is_in(std::span<const std::string_view> all, std::string_view key) {
  return std::find(all.begin(), all.end(), key) != all.end();
}

config::Open as_known(config::Open section, Problems& problems) {
  if (!section.node.is_map()) return section;
  std::erase_if(section.node.entries(), [&](const Node::Entry& entry) {
    const auto& [key, value] = entry;
    if (!is_in(kOnlyFalse, key)) return is_in(kOfTraining, key);
    const bool is_true = value.kind() == Node::Kind::scalar && value.text() == "true";
    problems.require(!is_true, "text_config." + key, "got true, expected false: these models have no such thing");
    return true;
  });
  return section;
}

void read_idefics3_texts(const Idefics3Config& c, Idefics3Shape& s, Problems& problems) {
  if (c.text_config.node.is_null()) s.text_config.rms_norm_eps = 1e-5;
  const std::size_t before = problems.size();
  read_section(as_known(c.text_config, problems), "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  check_type_of_texts(s.text_config.model_type, {"llama", "mistral", "qwen2"}, problems);
  s.section_tied = s.text_config.tie_word_embeddings.value_or(false);
  s.text_config.tie_word_embeddings = c.tie_word_embeddings.value_or(false);  // whatever the section says
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.text_model";
}

}  // namespace

Idefics3Shape resolve(const Idefics3Config& c, Problems& problems) {
  Idefics3Shape s;
  s.vision_config.model_type = c.model_type + "_vision";
  const std::size_t before = problems.size();
  s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems, c.model_type + "_vision");
  read_idefics3_texts(c, s, problems);
  if (problems.size() != before) return s;
  problems.require(s.tower.side() % c.scale_factor == 0, "scale_factor",
                   fmt::format("got {}, expected a divisor of the {} patches of a picture's side", c.scale_factor,
                               s.tower.side()));
  s.input = {.token = picture_token(c.image_token_id, "image_token_id", s.texts.vocab, problems),
             .patch_size = s.tower.patch,
             .merged = c.scale_factor,
             .side = s.tower.side(),
             .words = PictureWords::tiled};
  return s;
}

void Idefics3Config::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Idefics3Config& c, const Idefics3Shape& s, const std::string& dtype) {
  Node node = Node::map();
  const char* model = c.model_type == "smolvlm" ? "SmolVLM" : "Idefics3";
  node.at_or_add("_pad_token_id") = hf_number(c.kept_pad_token_id);
  node.at_or_add("architectures") = Node::list({hf_text(fmt::format("{}ForConditionalGeneration", model))});
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("image_token_id") = hf_number(c.image_token_id);
  node.at_or_add("model_type") = hf_text(c.model_type);
  node.at_or_add("scale_factor") = hf_number(c.scale_factor);
  node.at_or_add("text_config") = section_of_texts(to_hf_config(s.text_config, s.texts, dtype), s.section_tied);
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("use_cache") = hf_flag(true);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  return node;
}

}  // namespace hone::models
