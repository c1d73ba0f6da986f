// Texts that become vectors of their tokens.
#include "data/token_vector_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/option_words.h"
#include "base/strings.h"
#include "hone/error.h"
#include "hone/text.h"

namespace hone::data {
namespace {

std::int32_t expansion_token(const TokenVectorOptions& options, const Tokenizer& tokenizer) {
  if (options.expansion_length == 0) return 0;
  if (!options.expansion_token.empty()) {
    if (const auto id = tokenizer.id_of(options.expansion_token)) return *id;
    throw Error(ErrorKind::config, fmt::format("query_expansion: the tokenizer has no token {}; expected one of its "
                                               "own",
                                               hone::quoted(options.expansion_token)));
  }
  if (tokenizer.mask_id) return *tokenizer.mask_id;
  if (tokenizer.eos_id) return *tokenizer.eos_id;
  throw Error(ErrorKind::config, "query_expansion: the tokenizer has neither a mask token nor an end of a text")
      .hint("query_expansion_token names another token");
}

}  // namespace

TokenVectorTexts::TokenVectorTexts(TokenVectorOptions options, const Tokenizer& tokenizer)
    : options_(std::move(options)), expansion_(expansion_token(options_, tokenizer)) {
  for (const std::string& word : options_.skiplist_words)
    if (const auto id = tokenizer.id_of(word)) skipped_.insert(*id);
}

std::size_t TokenVectorTexts::most(Role role, std::size_t most) const {
  const bool query = role == Role::query;
  if (query && options_.expansion_length > 0 && options_.cuts_queries)
    return static_cast<std::size_t>(options_.expansion_length);
  const std::int64_t own = query ? options_.query_length : options_.document_length;
  if (own == 0) return most;
  return static_cast<std::size_t>(query ? std::max(own, options_.expansion_length) : own);
}

void TokenVectorTexts::put(std::int64_t real, HostDoc& doc) const {
  const bool query = doc.role == Role::query;
  const bool skips = query ? options_.skips_in_queries : options_.skips_in_documents;
  std::vector<std::int64_t>& counts = doc.per_token[kCounts];
  for (const std::int64_t id : doc.ids) counts.push_back(!skips || !skipped_.contains(id));
  doc.per_document[kUnattendedTokens] = options_.attend ? 0 : std::ssize(doc.ids) - real;
}

void add_token_vectors(const Dataset::Options& options, const Tokenizer& tokenizer, Hasher& hasher) {
  if (!options.token_vectors) return;
  const TokenVectorOptions& how = *options.token_vectors;
  hasher.update_field("vectors of tokens").update_field(how.expansion_token);
  for (const std::int64_t number :
       {how.query_length, how.document_length, how.expansion_length, std::int64_t{how.cuts_queries},
        std::int64_t{tokenizer.mask_id.value_or(-1)}, std::int64_t{tokenizer.eos_id.value_or(-1)}})
    hasher.update_int(static_cast<std::uint64_t>(number));
}

std::shared_ptr<const TokenVectorTexts> token_vector_texts(const Dataset::Options& options,
                                                           const Tokenizer& tokenizer) {
  if (!options.token_vectors) return nullptr;
  const TokenVectorOptions& how = *options.token_vectors;
  for (const auto& [name, length] : {std::pair{"query_length", how.query_length},
                                     {"document_length", how.document_length},
                                     {"query_expansion_length", how.expansion_length}})
    if (length > options.max_length)
      throw Error(ErrorKind::config,
                  fmt::format("{}: got {}, expected at most {}, as {} says", name, length, options.max_length,
                              option_words("data.max_length")));
  return std::make_shared<TokenVectorTexts>(how, tokenizer);
}

}  // namespace hone::data
