// What config.json of Qwen2-VL, Qwen2.5-VL and Qwen3-VL may say.
#include "models/qwen_vl_config.h"

#include <fmt/format.h>

#include <array>
#include <numeric>

#include "base/strings.h"
#include "hone/config_read.h"
#include "models/llama_families.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kSections = "mrope_section", *kByTurns = "mrope_interleaved";
constexpr std::int64_t kWindowLayers = 80;
// Which older files of transformers have in text_config, too.
constexpr std::array<std::string_view, 5> kOfTheWhole{"image_token_id", "video_token_id", "vision_start_token_id",
                                                      "vision_end_token_id", "vision_token_id"};

// What is said of rotations without what is of pictures, which goes to `sections`.
void take_sections(config::Open& rope, std::vector<std::int64_t>& sections, bool& by_turns, Problems& problems) {
  if (!rope.node.is_map()) return;
  Node words = Node::map({}, rope.node.mark());
  for (const auto& [key, value] : rope.node.entries()) {
    const bool names_type = (key == "type" || key == "rope_type") && value.kind() == Node::Kind::scalar;
    if (key == kSections)
      config::Values<std::vector<std::int64_t>>::read(value, sections, {problems, kSections, at_least(0)});
    else if (key == kByTurns)
      by_turns = value.kind() == Node::Kind::scalar && value.text() == "true";
    else if (names_type && value.text() == "mrope")
      words.at_or_add("rope_type") = Node::scalar("default");
    else
      words.at_or_add(key) = value;
  }
  rope.node = std::move(words);
}

config::Open of_texts_alone(config::Open section) {
  if (section.node.is_map())
    std::erase_if(section.node.entries(), [](const Node::Entry& entry) {
      return std::find(kOfTheWhole.begin(), kOfTheWhole.end(), entry.first) != kOfTheWhole.end();
    });
  return section;
}

// Smaller models that are made of published files keep ids for which they have no row: they end and begin no text.
void leave_out_ids(const std::string& key, std::int64_t vocab, config::Open& open, std::vector<std::string>& left_out) {
  const auto is_beyond = [&](const Node& one) {
    const auto id = one.kind() == Node::Kind::scalar && !one.quoted() ? parse_int(one.text()) : std::nullopt;
    if (id && *id >= vocab) left_out.push_back(fmt::format("{} {}", key, *id));
    return id && *id >= vocab;
  };
  if (open.node.kind() != Node::Kind::list) {
    if (is_beyond(open.node)) open.node = Node();
    return;
  }
  std::vector<Node> kept;
  for (const Node& one : open.node.items())
    if (!is_beyond(one)) kept.push_back(one);
  open.node = kept.empty() ? Node() : Node::list(std::move(kept));
}

void leave_out_ids(config::Open& section, std::int64_t vocab, std::vector<std::string>& left_out) {
  if (!section.node.is_map()) return;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (Node* found = section.node.find(key)) {
      config::Open ids{*found};
      leave_out_ids(std::string("text_config.") + key, vocab, ids, left_out);
      *found = std::move(ids.node);
    }
}

std::int64_t vocab_of(const config::Open& section, const std::string& type) {
  const Node* size = section.node.is_map() ? section.node.find("vocab_size") : nullptr;
  const auto rows = size && size->kind() == Node::Kind::scalar ? parse_int(size->text()) : std::nullopt;
  return rows.value_or(family_of(type)->vocab);
}

void read_texts(const QwenVlConfig& c, QwenVlShape& s, Problems& problems) {
  config::Open section = of_texts_alone(c.text_config);
  const bool is_third = c.model_type == "qwen3_vl";
  s.sections = is_third ? std::vector<std::int64_t>{24, 20, 20} : std::vector<std::int64_t>{16, 24, 24};
  s.by_turns = is_third;
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (Node* said = section.node.is_map() ? section.node.find(key) : nullptr) {
      config::Open rope{*said};
      take_sections(rope, s.sections, s.by_turns, problems);
      *said = std::move(rope.node);
    }
  s.text_config.model_type = c.model_type + "_text";
  if (!is_third) s.text_config.max_window_layers = kWindowLayers;
  const std::string type = s.text_config.model_type;
  const std::int64_t vocab = vocab_of(section, type);
  leave_out_ids(section, vocab, s.left_out);
  s.bos_token_id = c.bos_token_id, s.eos_token_id = c.eos_token_id, s.pad_token_id = c.pad_token_id;
  leave_out_ids("bos_token_id", vocab, s.bos_token_id, s.left_out);
  leave_out_ids("eos_token_id", vocab, s.eos_token_id, s.left_out);
  leave_out_ids("pad_token_id", vocab, s.pad_token_id, s.left_out);
  const std::size_t before = problems.size();
  read_section(section, "text_config", s.text_config, problems);
  if (problems.size() != before) return;
  problems.require(s.text_config.model_type == type || s.text_config.model_type == c.model_type,
                   "text_config.model_type", fmt::format("got \"{}\", expected {}", s.text_config.model_type, type));
  s.text_config.model_type = type;
  if (c.tie_word_embeddings.value_or(false)) s.text_config.tie_word_embeddings = true;
  const Problems::Scope scope(problems, "text_config.");
  s.texts = resolve(s.text_config, problems);
  s.texts.body = "model.language_model";
  const std::int64_t pairs = std::accumulate(s.sections.begin(), s.sections.end(), std::int64_t{0});
  problems.require(s.sections.size() == 3 && pairs == s.texts.head_size / 2, "rope_parameters.mrope_section",
                   fmt::format("got {} numbers that add up to {}, expected three, and head_dim / 2 ({})",
                               s.sections.size(), pairs, s.texts.head_size / 2));
  problems.require(s.by_turns == is_third, "rope_parameters.mrope_interleaved",
                   fmt::format("got {}, expected {} in {}", s.by_turns, is_third, c.model_type));
  const nn::RopeType type_of_rope = s.texts.rope.rope_type;
  problems.require(type_of_rope != nn::RopeType::dynamic && type_of_rope != nn::RopeType::longrope,
                   "rope_parameters.rope_type", "these models' rotations do not depend on a text's length");
}

}  // namespace

QwenVlShape resolve(const QwenVlConfig& c, Problems& problems) {
  QwenVlShape s;
  s.vision_config.model_type = c.model_type + "_vision";
  const std::size_t before = problems.size();
  read_section(c.vision_config, "vision_config", s.vision_config, problems);
  if (problems.size() != before) return s;
  {
    const Problems::Scope scope(problems, "vision_config.");
    s.tower = resolve(s.vision_config, problems);
  }
  problems.require(s.tower.windows == (c.model_type == "qwen2_5_vl") && s.tower.deep == (c.model_type == "qwen3_vl"),
                   "vision_config.model_type",
                   fmt::format("got \"{}\", expected {}_vision", s.vision_config.model_type, c.model_type));
  read_texts(c, s, problems);
  if (problems.size() != before) return s;
  problems.require(s.tower.out == s.texts.hidden,
                   c.model_type == "qwen2_vl" ? "vision_config.hidden_size" : "vision_config.out_hidden_size",
                   fmt::format("got {}, expected text_config.hidden_size ({})", s.tower.out, s.texts.hidden));
  problems.require(c.image_token_id < s.texts.vocab, "image_token_id",
                   fmt::format("got {}, expected a token below vocab_size ({})", c.image_token_id, s.texts.vocab));
  s.input = {.token = static_cast<std::int32_t>(c.image_token_id),
             .patch_size = s.tower.patch,
             .frames = s.tower.frames,
             .merged = s.tower.merge};
  return s;
}

std::vector<std::int64_t> QwenVlShape::axes() const {
  std::vector<std::int64_t> all;
  const std::int64_t pairs = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  for (std::int64_t pair = 0; by_turns && pair < pairs; ++pair) {
    const std::int64_t axis = pair % 3;
    all.push_back(axis > 0 && pair < 3 * sections[static_cast<std::size_t>(axis)] ? axis : 0);
  }
  for (std::size_t axis = 0; !by_turns && axis < sections.size(); ++axis)
    all.insert(all.end(), static_cast<std::size_t>(sections[axis]), static_cast<std::int64_t>(axis));
  return all;
}

void QwenVlConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const QwenVlConfig& c, const QwenVlShape& s, const std::string& dtype) {
  Node node = Node::map();
  const auto number = [](std::int64_t value) { return config::Values<std::int64_t>::write(value); };
  const auto text = [](const std::string& value) { return Node::scalar(value, /*quoted=*/true); };
  node.at_or_add("architectures") = Node::list({text(s.texts.architecture)});
  for (const auto& [key, id] : {std::pair{"bos_token_id", &s.bos_token_id},
                                {"eos_token_id", &s.eos_token_id},
                                {"pad_token_id", &s.pad_token_id}})
    if (!id->node.is_null()) node.at_or_add(key) = id->node;
  if (!dtype.empty()) node.at_or_add("dtype") = text(dtype);
  node.at_or_add("image_token_id") = number(c.image_token_id);
  node.at_or_add("model_type") = text(c.model_type);
  Node texts = without(to_hf_config(s.text_config, s.texts, dtype), {"architectures", "tie_word_embeddings"});
  if (s.by_turns) texts.at_or_add("rope_parameters").at_or_add(kByTurns) = config::Values<bool>::write(true);
  texts.at_or_add("rope_parameters").at_or_add(kSections) =
      config::Values<std::vector<std::int64_t>>::write(s.sections);
  node.at_or_add("text_config") = std::move(texts);
  node.at_or_add("tie_word_embeddings") = config::Values<bool>::write(s.texts.tied);
  node.at_or_add("video_token_id") = number(c.video_token_id);
  node.at_or_add("vision_config") = to_hf_config(s.vision_config, s.tower, dtype);
  node.at_or_add("vision_end_token_id") = number(c.vision_end_token_id);
  node.at_or_add("vision_start_token_id") = number(c.vision_start_token_id);
  return node;
}

}  // namespace hone::models
