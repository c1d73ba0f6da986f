// Of texts to embed by a vector of each token (late interaction): how long they are, and which tokens count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

// A value; by the names of sentence-transformers' MultiVectorEncoder.
struct TokenVectorOptions {
  std::int64_t dimension = 128;  // of a vector, where the model has no projection yet
  std::int64_t query_length = 0, document_length = 0;  // most tokens of one; 0: as of all texts (max_length)
  // Queries of fewer tokens go on with a token until they have so many; 0: they do not.
  std::int64_t expansion_length = 0;
  bool cuts_queries = true;  // to expansion_length, where they are longer
  bool attend = false;       // whether other tokens see those
  std::string expansion_token = {};  // "": the tokenizer's mask token, else its end of a text
  // Tokens that do not count in a text's vectors. What is no token of the tokenizer is passed over.
  std::vector<std::string> skiplist_words = {};
  bool skips_in_queries = false, skips_in_documents = true;
  bool operator==(const TokenVectorOptions&) const = default;
};

}  // namespace hone
