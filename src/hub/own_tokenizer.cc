// A folder without a file of tokens is no error before a text comes.
#include "hub/own_tokenizer.h"

#include "text/tokenizer/load.h"
#include "text/tokenizer/no_tokenizer.h"

namespace hone::hub {

std::shared_ptr<const Tokenizer> own_tokenizer(const std::filesystem::path& folder) {
  const std::optional<Error> missing = text::missing_tokens(folder);
  if (!missing) return load_tokenizer(folder.string());
  const std::string why = missing->what();
  return text::no_tokenizer(why.substr(0, why.find('\n')));
}

}  // namespace hone::hub
