// What config.json of a Gemma 4 that reads pictures may say.
#include "models/gemma4_whole_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/sections.h"
#include "models/sort_keys.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kGemma4Before = 255999, kGemma4After = 258882, kGemma4Image = 258880, kGemma4Film = 258884,
                       kGemma4Sound = 258881, kGemma4BeforeSound = 256000, kGemma4AfterSound = 258883;

void read_gemma4_texts(const Gemma4WholeConfig& c, Gemma4WholeShape& s, Problems& problems) {
  const std::string type = c.model_type + "_text";
  s.text_config.model_type = type;
  const std::size_t before = problems.size();
  read_section(c.text_config, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  check_type_of_texts(s.text_config.model_type, {type.c_str()}, problems);
  s.text_config.model_type = type;
  s.text_config.tie_word_embeddings = c.tie_word_embeddings.value_or(true);  // whatever the section says
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.language_model";
  const Node& both_ways = s.text_config.use_bidirectional_attention.node;
  const bool is_said = !is_default(s.text_config.use_bidirectional_attention);
  s.see_each_other = is_said ? both_ways.kind() == Node::Kind::scalar && both_ways.text() == "vision" : c.is_unified();
}

void read_vision(const Gemma4WholeConfig& c, Gemma4WholeShape& s, Problems& problems) {
  problems.require(c.vision_config.node.is_map(), "vision_config",
                   fmt::format("missing; without one it is a model of type {}_text", c.model_type));
  PictureInput& input = s.input;
  if (c.is_unified()) {
    s.patches = read_part(c.vision_config, "vision_config", s.patch_config, problems);
    input.patch_size = s.patches.patch;
  } else {
    s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems);
    input.patch_size = s.tower.patch, input.merged = s.tower.pooled;
  }
}

void read_audio(const Gemma4WholeConfig& c, Gemma4WholeShape& s, Problems& problems) {
  if (c.audio_config.node.is_null()) return;
  const std::size_t before = problems.size();
  if (c.is_unified())
    read_section(c.audio_config, "audio_config", s.sound_config.emplace(), problems);
  else
    read_section(c.audio_config, "audio_config", s.audio_config.emplace(), problems);
  if (problems.size() != before) return;
  const Problems::Scope scope(problems, "audio_config.");
  c.is_unified() ? check(*s.sound_config, problems) : check(*s.audio_config, problems);
}

void read_tokens(const Gemma4WholeConfig& c, Gemma4WholeShape& s, Problems& problems) {
  const auto token = [&](const std::optional<std::int64_t>& id, std::int64_t absent, const char* key) {
    return picture_token(id.value_or(absent), key, s.texts.vocab, problems);
  };
  // Of a small vocabulary there is none.
  const auto maybe_token = [&](const std::optional<std::int64_t>& id, std::int64_t absent) {
    const std::int64_t value = id.value_or(absent);
    return static_cast<std::int32_t>(value < s.texts.vocab ? value : -1);
  };
  s.input.token = token(c.image_token_id, kGemma4Image, "image_token_id");
  s.input.before = token(c.boi_token_id, kGemma4Before, "boi_token_id");
  s.input.after = token(c.eoi_token_id, kGemma4After, "eoi_token_id");
  s.input.film = maybe_token(c.video_token_id, kGemma4Film);
  s.input.sound = maybe_token(c.audio_token_id, kGemma4Sound);
  s.input.words = PictureWords::bracketed;
}

Node audio_section(const Gemma4WholeShape& s, const std::string& dtype) {
  if (s.audio_config) return to_hf_config(*s.audio_config, dtype);
  return s.sound_config ? to_hf_config(*s.sound_config, dtype) : Node();
}

}  // namespace

Gemma4WholeShape resolve(const Gemma4WholeConfig& c, Problems& problems) {
  Gemma4WholeShape s;
  const std::size_t before = problems.size();
  read_gemma4_texts(c, s, problems);
  read_vision(c, s, problems);
  read_audio(c, s, problems);
  if (problems.size() == before) read_tokens(c, s, problems);
  return s;
}

void Gemma4WholeConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Gemma4WholeConfig& c, const Gemma4WholeShape& s, const std::string& dtype) {
  Node node = Node::map();
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("architectures", Node::list({hf_text(c.is_unified() ? "Gemma4UnifiedForConditionalGeneration"
                                                          : "Gemma4ForConditionalGeneration")}));
  put("audio_config", audio_section(s, dtype));
  put("audio_token_id", hf_number(c.audio_token_id.value_or(kGemma4Sound)));
  put("boa_token_id", hf_number(c.boa_token_id.value_or(kGemma4BeforeSound)));
  put("boi_token_id", hf_number(s.input.before));
  write_ids(c, node);
  if (!dtype.empty()) put("dtype", hf_text(dtype));
  put("eoa_token_index", hf_number(c.eoa_token_index.value_or(c.eoa_token_id.value_or(kGemma4AfterSound))));
  put("eoi_token_id", hf_number(s.input.after));
  put("image_token_id", hf_number(s.input.token));
  put("initializer_range", nn::hf_float(c.initializer_range));
  put("model_type", hf_text(c.model_type));
  put("text_config", without(to_hf_config(s.text_config, s.texts, dtype), {"architectures"}));
  put("tie_word_embeddings", hf_flag(s.texts.tied));
  put("video_token_id", hf_number(c.video_token_id.value_or(kGemma4Film)));
  put("vision_config", c.is_unified() ? to_hf_config(s.patch_config, dtype)
                                      : to_hf_config(s.vision_config, s.tower, dtype));
  sort_keys(node);
  return node;
}

}  // namespace hone::models
