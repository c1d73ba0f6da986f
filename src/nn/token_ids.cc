// Strict about token ids: one that is no token would never be met, and nobody would know.
#include "nn/token_ids.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::nn {

std::vector<std::int32_t> read_token_ids(const config::Node& node, const std::string& key, std::int64_t vocab_size,
                                         Problems& problems) {
  using Kind = config::Node::Kind;
  if (node.is_null()) return {};
  const bool many = key == "eos_token_id";
  const bool list = many && node.kind() == Kind::list && !node.items().empty();
  std::vector<std::int32_t> ids;
  for (const config::Node& item : list ? node.items() : std::vector{node}) {
    const auto id = item.kind() == Kind::scalar && !item.quoted() ? parse_int(item.text()) : std::nullopt;
    if (id && *id >= 0 && *id < vocab_size) {
      ids.push_back(static_cast<std::int32_t>(*id));
      continue;
    }
    const std::string got = item.quoted() ? hone::quoted(item.text()) : config::detail::inline_text(item);
    problems.add(key, fmt::format("got {}, expected a token of the model, 0 to {}{}, or null for none", got,
                                  vocab_size - 1, many ? ", a list of them" : ""),
                 "", item.mark());
  }
  return ids;
}

void check_token_ids(const config::Node& file, std::int64_t vocab_size, Problems& problems) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const config::Node* node = file.find(key)) read_token_ids(*node, key, vocab_size, problems);
}

}  // namespace hone::nn
