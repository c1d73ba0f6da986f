// A folder without a file of tokens is no error before a text comes.
#include "hub/own_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "hone/error.h"
#include "text/tokenizer/load.h"
#include "text/tokenizer/no_tokenizer.h"

namespace hone::hub {

std::shared_ptr<const Tokenizer> own_tokenizer(const std::filesystem::path& folder) {
  const std::optional<Error> missing = text::missing_tokens(folder);
  if (!missing) return load_tokenizer(folder.string());
  const std::string why = missing->what();
  return text::no_tokenizer(why.substr(0, why.find('\n')));
}

std::string_view tokenizer_json(const Tokenizer& tokenizer) {
  for (const auto& [name, content] : tokenizer.files)
    if (name == "tokenizer.json") return content;
  return "";
}

bool is_tokenizer_of(const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  try {
    const auto own = own_tokenizer(folder);
    return own->vocab_size() == 0 ||
           (tokenizer_json(*own) == tokenizer_json(tokenizer) && own->eos_id == tokenizer.eos_id &&
            own->bos_id == tokenizer.bos_id && own->pad_id == tokenizer.pad_id);
  } catch (const Error&) {
    return false;  // it may be named because the folder's own cannot be read
  }
}

void check_same_tokens(const Tokenizer& own, const std::filesystem::path& folder, const std::string& who) {
  const std::shared_ptr<const Tokenizer> other = own_tokenizer(folder);
  if (own.fingerprint == other->fingerprint) return;
  if (own.vocab_size() == 0 || other->vocab_size() == 0)
    return log::warning("{}: {} cannot be compared with the run's tokenizer, as one of them has none", who,
                        folder.string());
  const auto count = static_cast<std::int32_t>(std::min(own.vocab_size(), other->vocab_size()));
  std::string special;  // the first one that is another; chat models give turns names that base models have not
  for (std::int32_t id = 0; id < count; ++id) {
    const std::optional<std::string> here = own.token_of(id), there = other->token_of(id);
    if (!here || !there || *here == *there) continue;
    const std::string fact =
        fmt::format("token {} is {} there, and {} in this run", id, hone::quoted(*there), hone::quoted(*here));
    if (!own.is_special(id) && !other->is_special(id))
      throw Error(ErrorKind::config, fmt::format("{}: {} has another tokenizer: {}", who, folder.string(), fact))
          .hint("take a model of the same family, which reads the same ids");
    if (special.empty()) special = fact;
  }
  if (own.eos_id && other->eos_id && own.eos_id != other->eos_id)
    log::warning("{}: texts of {} end with another token: {} there, and {} in this run", who, folder.string(),
                 *other->eos_id, *own.eos_id);
  if (!special.empty()) log::warning("{}: {} has other special tokens: {}", who, folder.string(), special);
}

}  // namespace hone::hub
