// Texts among pictures in config.json.
#include "models/picture_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "base/strings.h"
#include "hone/config_read.h"
#include "models/llama_families.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kMropeSections = "mrope_section", *kMropeByTurns = "mrope_interleaved";
// Which older files of transformers have in text_config, too.
constexpr auto kTokensOfPictures = std::to_array<std::string_view>(
    {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id",
     "image_start_token_id", "image_end_token_id", "video_start_token_id", "video_end_token_id"});

std::int64_t sum_of_sections(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

}  // namespace

void take_sections(config::Open& rope, std::vector<std::int64_t>& sections, bool& by_turns, Problems& problems) {
  if (!rope.node.is_map()) return;
  Node words = Node::map({}, rope.node.mark());
  for (const auto& [key, value] : rope.node.entries()) {
    const bool names_type = (key == "type" || key == "rope_type") && value.kind() == Node::Kind::scalar;
    if (key == kMropeSections)
      config::Values<std::vector<std::int64_t>>::read(value, sections, {problems, kMropeSections, at_least(0)});
    else if (key == kMropeByTurns)
      by_turns = value.kind() == Node::Kind::scalar && value.text() == "true";
    else if (names_type && value.text() == "mrope")
      words.at_or_add("rope_type") = Node::scalar("default");
    else
      words.at_or_add(key) = value;
  }
  rope.node = std::move(words);
}

config::Open without_tokens_of_pictures(config::Open section) {
  if (section.node.is_map())
    std::erase_if(section.node.entries(), [](const Node::Entry& entry) {
      return std::find(kTokensOfPictures.begin(), kTokensOfPictures.end(), entry.first) != kTokensOfPictures.end();
    });
  return section;
}

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

void check_sections(const std::vector<std::int64_t>& sections, const LlamaShape& texts, Problems& problems) {
  const std::int64_t all = texts.rope.rotated(texts.head_size) / 2;
  const bool in_part = 2 * all != texts.head_size;
  problems.require(sections.size() == 3 && sum_of_sections(sections) == all, "rope_parameters.mrope_section",
                   fmt::format("got {} numbers that add up to {}, expected three, and {} ({})", sections.size(),
                               sum_of_sections(sections),
                               in_part ? "half of what is rotated of a head" : "head_dim / 2", all));
  const nn::RopeType type = texts.rope.rope_type;
  problems.require(type != nn::RopeType::dynamic && type != nn::RopeType::longrope, "rope_parameters.rope_type",
                   "these models' rotations do not depend on a text's length");
}

std::vector<std::int64_t> axes_of(const std::vector<std::int64_t>& sections, bool by_turns) {
  std::vector<std::int64_t> all;
  const std::int64_t pairs = sum_of_sections(sections);
  for (std::int64_t pair = 0; by_turns && pair < pairs; ++pair) {
    const std::int64_t axis = pair % 3;
    all.push_back(axis > 0 && pair < 3 * sections[static_cast<std::size_t>(axis)] ? axis : 0);
  }
  for (std::size_t axis = 0; !by_turns && axis < sections.size(); ++axis)
    all.insert(all.end(), static_cast<std::size_t>(sections[axis]), static_cast<std::int64_t>(axis));
  return all;
}

void write_sections(const std::vector<std::int64_t>& sections, bool by_turns, Node& texts) {
  Node& rope = texts.at_or_add("rope_parameters");
  if (by_turns) rope.at_or_add(kMropeByTurns) = config::Values<bool>::write(true);
  rope.at_or_add(kMropeSections) = config::Values<std::vector<std::int64_t>>::write(sections);
  sort_keys(rope);
}

}  // namespace hone::models
