// What a fresh model's config.json takes from its tokenizer.
#include "hub/fresh.h"

#include <limits>
#include <optional>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::hub {
namespace {

constexpr auto kAny = std::numeric_limits<std::int64_t>::max();  // a vocab_size that is wrong is an error later
using Id = std::optional<std::int64_t>;

void add_default(config::Node& hf_config, const char* key, const Id& value) {
  if (!hf_config.find(key)) hf_config.at_or_add(key) = config::Values<Id>::write(value);
}

}  // namespace

void add_tokenizer_keys(config::Node& hf_config, const Tokenizer* tokenizer) {
  if (tokenizer) add_default(hf_config, "vocab_size", tokenizer->vocab_size());
  const config::Node* size = hf_config.find("vocab_size");
  std::int64_t rows = kAny;
  if (size && size->kind() == config::Node::Kind::scalar) rows = parse_int(size->text()).value_or(kAny);
  const auto known = [&](const std::optional<std::int32_t>& id) { return id && *id < rows ? Id(*id) : std::nullopt; };
  add_default(hf_config, "bos_token_id", tokenizer ? known(tokenizer->bos_id) : std::nullopt);
  add_default(hf_config, "eos_token_id", tokenizer ? known(tokenizer->eos_id) : std::nullopt);
  add_default(hf_config, "pad_token_id", tokenizer ? known(tokenizer->pad_id) : std::nullopt);
}

}  // namespace hone::hub
