// What config.json of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5 may say.
#include "models/qwen_vl_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/llama_families.h"
#include "models/picture_texts.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kWindowLayers = 80;
// What types of models differ in.
struct QwenVlKind {
  const char *type, *tower, *architecture;
  std::vector<std::int64_t> sections;
  bool by_turns = false, ties_above = false;  // ties_above: what text_config says of the head has no effect
  QwenVlParts::Tokens tokens = {};
};

const QwenVlKind& qwen_vl_kind(const std::string& model_type) {
  constexpr QwenVlParts::Tokens newer{248056, 248057, 248053, 248054};
  static const std::vector<QwenVlKind> kQwenVlKinds{
      {"qwen2_vl", "qwen2_vl_vision", "Qwen2VLForConditionalGeneration", {16, 24, 24}},
      {"qwen2_5_vl", "qwen2_5_vl_vision", "Qwen2_5_VLForConditionalGeneration", {16, 24, 24}},
      {"qwen3_vl", "qwen3_vl_vision", "Qwen3VLForConditionalGeneration", {24, 20, 20}, true},
      {"qwen3_vl_moe", "qwen3_vl_moe_vision", "Qwen3VLMoeForConditionalGeneration", {24, 20, 20}, true, true},
      {"qwen3_5", "qwen3_5_vision", "Qwen3_5ForConditionalGeneration", {11, 11, 10}, true, true, newer},
      {"qwen3_5_moe", "qwen3_5_moe_vision", "Qwen3_5MoeForConditionalGeneration", {11, 11, 10}, true, true, newer}};
  const auto found = std::find_if(kQwenVlKinds.begin(), kQwenVlKinds.end(),
                                  [&](const QwenVlKind& kind) { return kind.type == model_type; });
  HONE_ASSERT(found != kQwenVlKinds.end());
  return *found;
}

void read_qwen_tokens(const QwenVlConfig& c, QwenVlParts& s) {
  s.tokens = qwen_vl_kind(c.model_type).tokens;
  for (const auto& [said, token] : {std::pair{&c.image_token_id, &s.tokens.image},
                                    {&c.video_token_id, &s.tokens.video},
                                    {&c.vision_start_token_id, &s.tokens.start},
                                    {&c.vision_end_token_id, &s.tokens.end}})
    *token = said->value_or(*token);
}

void read_qwen_ids(const QwenVlConfig& c, config::Open& section, QwenVlParts& s) {
  const std::int64_t vocab = vocab_of(section, c.model_type + "_text");
  leave_out_ids(section, vocab, s.left_out);
  s.bos_token_id = c.bos_token_id, s.eos_token_id = c.eos_token_id, s.pad_token_id = c.pad_token_id;
  leave_out_ids("bos_token_id", vocab, s.bos_token_id, s.left_out);
  leave_out_ids("eos_token_id", vocab, s.eos_token_id, s.left_out);
  leave_out_ids("pad_token_id", vocab, s.pad_token_id, s.left_out);
}

template <class C, class S>
void read_qwen_texts(const QwenVlConfig& c, QwenVlShapeOf<C, S>& s, Problems& problems) {
  config::Open section = without_tokens_of_pictures(c.text_config);
  const QwenVlKind& kind = qwen_vl_kind(c.model_type);
  s.sections = kind.sections, s.by_turns = kind.by_turns;
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (Node* said = section.node.is_map() ? section.node.find(key) : nullptr) {
      config::Open rope{*said};
      take_sections(rope, s.sections, s.by_turns, problems);
      *said = std::move(rope.node);
    }
  const std::string type = c.model_type + "_text";
  s.text_config.model_type = type;
  if (!kind.by_turns) s.text_config.max_window_layers = kWindowLayers;
  read_qwen_ids(c, section, s);
  const std::size_t before = problems.size();
  read_section(section, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  problems.require(s.text_config.model_type == type || s.text_config.model_type == c.model_type,
                   "text_config.model_type", fmt::format("got \"{}\", expected {}", s.text_config.model_type, type));
  s.text_config.model_type = type;
  const bool tied = c.tie_word_embeddings.value_or(false);
  s.texts_tied = s.text_config.tie_word_embeddings;
  if (tied || kind.ties_above) s.text_config.tie_word_embeddings = tied;
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.language_model";
  if (problems.size() != before) return;
  check_sections(s.sections, s.texts, problems);
  problems.require(s.by_turns == kind.by_turns, "rope_parameters.mrope_interleaved",
                   fmt::format("got {}, expected {} in {}", s.by_turns, kind.by_turns, c.model_type));
}

}  // namespace

template <class Shape>
Shape resolve_as(const QwenVlConfig& c, Problems& problems) {
  Shape s;
  const QwenVlKind& kind = qwen_vl_kind(c.model_type);
  s.vision_config.model_type = kind.tower;
  const std::size_t before = problems.size();
  s.tower = read_part(c.vision_config, "vision_config", s.vision_config, problems);
  if (problems.size() == before)
    problems.require(s.tower.type == kind.tower, "vision_config.model_type",
                     fmt::format("got \"{}\", expected {}", s.vision_config.model_type, kind.tower));
  read_qwen_tokens(c, s);
  read_qwen_texts(c, s, problems);
  if (problems.size() != before) return s;
  problems.require(s.tower.out == s.texts.hidden,
                   c.model_type == "qwen2_vl" ? "vision_config.hidden_size" : "vision_config.out_hidden_size",
                   fmt::format("got {}, expected text_config.hidden_size ({})", s.tower.out, s.texts.hidden));
  s.input = {.token = picture_token(s.tokens.image, "image_token_id", s.texts.vocab, problems),
             .patch_size = s.tower.patch,
             .frames = s.tower.frames,
             .merged = s.tower.merge};
  if (s.tokens.video < s.texts.vocab) s.input.film = static_cast<std::int32_t>(s.tokens.video);
  return s;
}

template <class Shape>
Shape qwen_vl_shape(const QwenVlConfig& config, const HeadRequest& head) {
  Problems problems;
  Shape shape = resolve_as<Shape>(config, problems);
  return settled(std::move(shape), config.model_type, head, problems);
}

std::vector<std::int64_t> QwenVlParts::axes() const { return axes_of(sections, by_turns); }

void QwenVlConfig::validate(Problems& problems) const {
  if (model_type == "qwen3_vl_moe") resolve_as<Qwen3VlMoeShape>(*this, problems);
  else if (model_type == "qwen3_5") resolve_as<Qwen35VlShape>(*this, problems);
  else if (model_type == "qwen3_5_moe") resolve_as<Qwen35MoeVlShape>(*this, problems);
  else resolve_as<QwenVlShape>(*this, problems);
}

template <class C, class S>
Node to_hf_config(const QwenVlConfig& c, const QwenVlShapeOf<C, S>& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("architectures") = Node::list({hf_text(qwen_vl_kind(c.model_type).architecture)});
  write_ids(s, node);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("image_token_id") = hf_number(s.tokens.image);
  node.at_or_add("model_type") = hf_text(c.model_type);
  Node texts = without(to_hf_config(s.text_config, s.texts, dtype), {"architectures", "tie_word_embeddings"});
  write_sections(s.sections, s.by_turns, texts);
  if (qwen_vl_kind(c.model_type).ties_above) {
    const bool said = s.texts_tied.value_or(c.model_type == "qwen3_vl_moe");
    texts.at_or_add("tie_word_embeddings") = hf_flag(said);
    sort_keys(texts);
  }
  node.at_or_add("text_config") = std::move(texts);
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("video_token_id") = hf_number(s.tokens.video);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  node.at_or_add("vision_end_token_id") = hf_number(s.tokens.end);
  node.at_or_add("vision_start_token_id") = hf_number(s.tokens.start);
  return node;
}

// Of each of them what its models use.
#define HONE_QWEN_VL(Shape)                                                \
  template Shape resolve_as<Shape>(const QwenVlConfig&, Problems&);        \
  template Shape qwen_vl_shape<Shape>(const QwenVlConfig&, const HeadRequest&); \
  template Node to_hf_config(const QwenVlConfig&, const Shape&, const std::string&)
HONE_QWEN_VL(QwenVlShape);
HONE_QWEN_VL(Qwen3VlMoeShape);
HONE_QWEN_VL(Qwen35VlShape);
HONE_QWEN_VL(Qwen35MoeVlShape);
#undef HONE_QWEN_VL

}  // namespace hone::models
