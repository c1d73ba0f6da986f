// Ids of special tokens in config.json and generation_config.json.
#include "hub/special_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/strings.h"
#include "config/texts_half.h"
#include "hone/config_read.h"

namespace hone::hub {
namespace {

using config::Node;
using Kind = config::Node::Kind;

// What a file has under the key: one id, a list, or none.
std::vector<Node> ids_of(const Node& file, const char* key) {
  const Node* found = file.find(key);
  if (!found || found->is_null()) return {};
  return found->kind() == Kind::list ? found->items() : std::vector{*found};
}

bool holds(const std::vector<Node>& ids, const Node& id) {
  return std::any_of(ids.begin(), ids.end(), [&](const Node& one) { return one.text() == id.text(); });
}

Node in_front(const Node& id, std::vector<Node> ids) {
  std::erase_if(ids, [&](const Node& one) { return one.text() == id.text(); });
  ids.insert(ids.begin(), id);
  return Node::list(std::move(ids));
}

std::string text_of(const std::vector<Node>& ids) {
  std::vector<std::string> texts;
  for (const Node& id : ids) texts.push_back(id.text());
  return texts.empty() ? "none" : join(texts, ", ");
}

bool is_list(const Node& file, const char* key) {
  const Node* found = file.find(key);
  return found && found->kind() == Kind::list;
}

std::int64_t rows_of(const Node& hf_config) {
  const Node* size = hf_config.find("vocab_size");
  const auto rows = size && size->kind() == Kind::scalar ? parse_int(size->text()) : std::nullopt;
  return rows.value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

bool add_end(Node& generation_config, const Node& whole, std::int32_t end) {
  const Node& hf_config = config::of_words(whole);
  const Node added = config::Values<std::int64_t>::write(end);
  std::vector<Node> ids = ids_of(generation_config, "eos_token_id");
  const bool given = !ids.empty();
  if (!given) ids = ids_of(hf_config, "eos_token_id");
  const bool known = holds(ids, added);
  if (known && given) return false;
  if (!known) ids.push_back(added);
  generation_config.at_or_add("eos_token_id") = Node::list(std::move(ids));
  return true;
}

std::vector<std::string> align_ids(Node& whole, Node& generation_config, const Tokenizer& tokenizer) {
  Node& hf_config = config::of_words(whole);
  std::vector<std::string> changes;
  const std::int64_t rows = rows_of(hf_config);
  for (const auto& [key, id] : {std::pair{"eos_token_id", tokenizer.eos_id}, {"bos_token_id", tokenizer.bos_id},
                                {"pad_token_id", tokenizer.pad_id}}) {
    if (!id || *id >= rows) continue;
    const Node wanted = config::Values<std::int64_t>::write(*id);
    const bool ends = key == std::string_view("eos_token_id"), pads = key == std::string_view("pad_token_id");
    const std::vector<Node> model = ids_of(hf_config, key), generation = ids_of(generation_config, key);
    const bool model_differs = !pads && !holds(model, wanted);
    if (!model_differs && holds(generation, wanted)) continue;
    changes.push_back(fmt::format("{} {} (was {})", key, *id, text_of(model_differs ? model : generation)));
    if (!pads) hf_config.at_or_add(key) = ends && is_list(hf_config, key) ? in_front(wanted, model) : wanted;
    generation_config.at_or_add(key) = ends ? in_front(wanted, generation) : wanted;
  }
  return changes;
}

std::vector<std::string> name_padding(Node& hf_config, const Tokenizer& tokenizer) {
  const auto pad = tokenizer.pad_id;
  if (!pad || pad == tokenizer.eos_id || *pad >= rows_of(hf_config) || !ids_of(hf_config, "pad_token_id").empty())
    return {};
  hf_config.at_or_add("pad_token_id") = config::Values<std::int64_t>::write(*pad);
  return {fmt::format("pad_token_id {} (was {})", *pad, text_of({}))};
}

}  // namespace hone::hub
