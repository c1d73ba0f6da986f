// Texts that become vectors of their tokens: how many tokens they have, and which of these count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "hone/data.h"

namespace hone {
class Hasher;  // base/hash.h
}

namespace hone::data {

// Columns of such texts: of each token whether its vector counts, and of each document how many of its last tokens see
// the others and are seen by none.
inline constexpr const char *kCounts = "counts", *kUnattendedTokens = "unattended";

// Immutable; any thread may use it.
class TokenVectorTexts {
 public:
  // Throws Error(config): the tokenizer has no such token to go on with.
  TokenVectorTexts(TokenVectorOptions options, const Tokenizer& tokenizer);

  // The most tokens of a query or of a document, where others have `most` (0: as many as there are).
  std::size_t most(Role role, std::size_t most) const;
  // What a query of these tokens goes on with.
  template <class Id>
  void expand(Role role, std::vector<Id>& ids) const {
    if (role == Role::query && std::ssize(ids) < options_.expansion_length)
      ids.resize(static_cast<std::size_t>(options_.expansion_length), static_cast<Id>(expansion_));
  }
  // The columns; real: so many tokens are the text's own.
  void put(std::int64_t real, HostDoc& doc) const;
  const TokenVectorOptions& options() const { return options_; }

 private:
  const TokenVectorOptions options_;
  std::int32_t expansion_ = 0;
  std::unordered_set<std::int64_t> skipped_;
};

// What the tokens depend on; nothing where texts do not become such.
void add_token_vectors(const Dataset::Options& options, const Tokenizer& tokenizer, Hasher& hasher);

// Null: texts do not become such. Throws Error(config): as above, or texts are to be longer than rows.
std::shared_ptr<const TokenVectorTexts> token_vector_texts(const Dataset::Options& options, const Tokenizer& tokenizer);

}  // namespace hone::data
