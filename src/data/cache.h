// The token cache: a file's tokens, taken from disk when nothing that decides them has changed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "data/token_store.h"
#include "hone/data.h"

namespace hone::data {

// A file's tokens and the key that stands for them: a hash of the file's content and kind, its columns, header,
// max_samples and ignore, the tokenizer, append_eos, loss, the kind of records and the cache's version. Packing comes
// after the cache, as does cutting, but for labelled texts.
struct CachedTokens {
  std::shared_ptr<const TokenStore> store;
  std::string key;
  bool made = true;  // now, from the file: the store has the names of its unread fields, which the cache has not
};

// Takes the tokens from the folder ("" = no cache) or makes them and puts them there; a damaged file is rebuilt. A
// cache that cannot be written is a warning. Throws Error(data) if the file changes while it is read. most_bytes: of
// new ids in memory; there is a file in the folder from then on, and with a cache the tokens lie in it, mapped.
CachedTokens load_tokens(const DataFile& file, const Tokenizer& tokenizer, const Dataset::Options& options,
                         std::uint64_t most_bytes = TokenPlace().most_bytes);

// Tokens of records in memory; the key stands for them as well.
CachedTokens tokens_of(const std::vector<Record>& records, const std::string& name, const Tokenizer& tokenizer,
                       const Dataset::Options& options);

// The model has no row for a larger id: names the record now rather than fail in the middle of a run. 0: not checked.
void check_ids(const TokenStore& store, const std::function<std::string(std::int64_t doc)>& name_of,
               std::int64_t vocab_size);

}  // namespace hone::data
