// What a fresh model's config.json takes from its tokenizer.
#include "hub/fresh.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "config/texts_half.h"
#include "hone/config_read.h"

namespace hone::hub {
namespace {

constexpr auto kAny = std::numeric_limits<std::int64_t>::max();  // a vocab_size that is wrong is an error later
using Id = std::optional<std::int64_t>;

void add_default(config::Node& hf_config, const char* key, const Id& value) {
  if (!hf_config.find(key)) hf_config.at_or_add(key) = config::Values<Id>::write(value);
}

std::int64_t rows_for_ids(const config::Node& hf_config) {
  const config::Node* size = hf_config.find("vocab_size");
  return size && size->kind() == config::Node::Kind::scalar ? parse_int(size->text()).value_or(kAny) : kAny;
}

std::vector<std::string> texts_of(const config::Node& ids) {
  if (ids.is_null()) return {};
  if (ids.kind() != config::Node::Kind::list) return {ids.text()};
  std::vector<std::string> texts;
  for (const config::Node& id : ids.items()) texts.push_back(id.text());
  return texts;
}

}  // namespace

std::vector<std::string> take_tokenizer_ids(config::Node& whole, const Tokenizer& tokenizer) {
  config::Node& hf_config = config::of_words(whole);
  std::vector<std::string> changes;
  const std::int64_t rows = rows_for_ids(hf_config);
  for (const auto& [key, id] : {std::pair{"bos_token_id", tokenizer.bos_id},
                                {"eos_token_id", tokenizer.eos_id},
                                {"pad_token_id", tokenizer.pad_id}}) {
    config::Node* had = hf_config.find(key);
    if (!had || !id || *id >= rows || had->mark().file.starts_with("--")) continue;
    const std::vector<std::string> before = texts_of(*had);
    if (std::find(before.begin(), before.end(), std::to_string(*id)) != before.end()) continue;
    changes.push_back(fmt::format("{} {} (was {})", key, *id, before.empty() ? "none" : join(before, ", ")));
    *had = config::Values<std::int64_t>::write(*id);
  }
  return changes;
}

void add_tokenizer_keys(config::Node& whole, const Tokenizer* tokenizer) {
  config::Node& hf_config = config::of_words(whole);
  if (tokenizer) add_default(hf_config, "vocab_size", tokenizer->vocab_size());
  const std::int64_t rows = rows_for_ids(hf_config);
  const auto known = [&](const std::optional<std::int32_t>& id) { return id && *id < rows ? Id(*id) : std::nullopt; };
  add_default(hf_config, "bos_token_id", tokenizer ? known(tokenizer->bos_id) : std::nullopt);
  add_default(hf_config, "eos_token_id", tokenizer ? known(tokenizer->eos_id) : std::nullopt);
  add_default(hf_config, "pad_token_id", tokenizer ? known(tokenizer->pad_id) : std::nullopt);
  // What it has without a word are ids of its own vocabulary, which transformers refuses beyond another one's.
  if (const config::Node* type = hf_config.find("model_type"); type && type->text() == "modernbert")
    for (const char* key : {"cls_token_id", "sep_token_id"}) add_default(hf_config, key, std::nullopt);
}

}  // namespace hone::hub
