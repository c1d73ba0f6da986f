// What config.json of a Gemma 3 that reads pictures may say.
#include "models/gemma3_config.h"

#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/sections.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kGemma3Before = 255999, kGemma3After = 256000, kGemma3Image = 262144;

void read_gemma3_texts(const Gemma3Config& c, Gemma3Shape& s, Problems& problems) {
  s.text_config.model_type = "gemma3_text";
  const std::size_t before = problems.size();
  read_section(c.text_config, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  check_type_of_texts(s.text_config.model_type, {"gemma3_text"}, problems);
  s.text_config.model_type = "gemma3_text";
  s.text_config.tie_word_embeddings = c.tie_word_embeddings.value_or(true);  // whatever the section says
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.language_model";
  problems.require(!s.texts.sees_all, "use_bidirectional_attention",
                   "got true, expected false: a model that reads pictures continues texts");
  problems.require(s.texts.logit_soft_cap == 0, "final_logit_softcapping",
                   "got a number, expected null: in transformers it has no effect in gemma3 models");
}

void read_gemma3_tokens(const Gemma3Config& c, Gemma3Shape& s, Problems& problems) {
  const auto token = [&](const std::optional<std::int64_t>& index, const std::optional<std::int64_t>& id,
                         std::int64_t absent, const char* key) {
    return picture_token(index.value_or(id.value_or(absent)), key, s.texts.vocab, problems);
  };
  s.input.token = token(c.image_token_index, c.image_token_id, kGemma3Image, "image_token_index");
  s.input.before = token(c.boi_token_index, c.boi_token_id, kGemma3Before, "boi_token_index");
  s.input.after = token(c.eoi_token_index, c.eoi_token_id, kGemma3After, "eoi_token_index");
  s.input.words = PictureWords::framed;
}

}  // namespace

Gemma3Shape resolve(const Gemma3Config& c, Problems& problems) {
  Gemma3Shape s;
  const std::size_t before = problems.size();
  s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems, "siglip_vision_model");
  read_gemma3_texts(c, s, problems);
  if (problems.size() != before) return s;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(c.mm_tokens_per_image))));
  const bool fits = side * side == c.mm_tokens_per_image && s.tower.side() % side == 0;
  problems.require(fits, "mm_tokens_per_image",
                   fmt::format("got {}, expected the square of a number that the {} patches of a picture's side are a "
                               "multiple of",
                               c.mm_tokens_per_image, s.tower.side()));
  if (!fits) return s;
  s.pooled = s.tower.side() / side;
  read_gemma3_tokens(c, s, problems);
  s.input.patch_size = s.tower.patch, s.input.merged = s.pooled, s.input.side = s.tower.side();
  return s;
}

void Gemma3Config::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Gemma3Config& c, const Gemma3Shape& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("architectures") = Node::list({hf_text("Gemma3ForConditionalGeneration")});
  node.at_or_add("boi_token_index") = hf_number(s.input.before);
  write_ids(c, node);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("eoi_token_index") = hf_number(s.input.after);
  node.at_or_add("image_token_index") = hf_number(s.input.token);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("mm_tokens_per_image") = hf_number(c.mm_tokens_per_image);
  node.at_or_add("model_type") = hf_text("gemma3");
  node.at_or_add("text_config") =
      without(to_hf_config(s.text_config, s.texts, dtype), {"architectures"});
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  return node;
}

}  // namespace hone::models
