// Other files of tokens, written as the tokenizer.json that says the same.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/files.h"

namespace hone::text {

// A SentencePiece model (Unigram or BPE), a protocol buffer. `where` begins every message.
bool is_sentencepiece(std::string_view bytes);
Files sentencepiece_files(std::string_view bytes, const std::string& where);

// A tiktoken file: base64 of a token's bytes and its rank, a line each. The file does not say how texts are cut into
// words; its number of tokens tells which well-known one it is.
bool is_tiktoken(std::string_view text);
Files tiktoken_files(std::string_view text, const std::string& where);

// Text of JSON, in order and without a tree.
void append_json_string(std::string& to, std::string_view text);

// An added token and what a tokenizer.json says besides its model.
struct SpecialToken {
  std::int32_t id;
  std::string content;
  bool special = true;
};
using OrderedJson = nlohmann::ordered_json;
struct TokenizerParts {
  std::vector<SpecialToken> added;
  OrderedJson normalizer, pre_tokenizer, post_processor, decoder;
};
// model: the text of its object.
std::string tokenizer_json_text(const TokenizerParts& parts, const std::string& model);

}  // namespace hone::text
