// What each token of a vocabulary adds to a text, in bytes, and a trie of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hone/text.h"

namespace hone::text {

// Of each id below `count`: the bytes that it adds behind other tokens or, `first`, at the beginning of a text. These
// are true bytes, also where they are part of a character. "": none, as special tokens have no text.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer, std::int64_t count, bool first);
// Of one. "" also where it is a part of a character and nothing says which.
std::string bytes_of_token(const Tokenizer& tokenizer, std::int32_t id, bool first);

// All tokens in the order of their bytes: a node's subtree follows it. Immutable.
struct TextTrie {
  struct Node {
    std::uint32_t behind;               // the first node that is not below this one
    std::uint32_t first_token, tokens;  // that end here, in `ids`
    std::uint16_t depth;                // its bytes
    std::uint8_t byte;
  };
  explicit TextTrie(const std::vector<std::string>& texts);
  std::vector<Node> nodes;
  std::vector<std::int32_t> ids;
};

// A tokenizer's tokens as answers are made of them. Immutable: any thread may call it.
class TokenTexts {
 public:
  // vocab_size: the model's. Error(config): tokens do not read alone as they do in a text.
  TokenTexts(const Tokenizer& tokenizer, std::int64_t vocab_size);

  std::int64_t size() const { return std::ssize(texts_); }
  const std::string& text(std::int32_t id, bool first) const;
  bool begins_otherwise() const { return first_trie_ != nullptr; }  // a first token has another text than later ones
  const TextTrie& trie(bool first) const { return first && first_trie_ ? *first_trie_ : trie_; }
  // Bytes that can be written one after the other.
  const std::array<bool, 256>& usable() const { return usable_; }

 private:
  void find_usable();

  std::vector<std::string> texts_, first_;  // first_: empty where both are the same
  TextTrie trie_;
  std::unique_ptr<const TextTrie> first_trie_;
  std::array<bool, 256> usable_ = {};
};

}  // namespace hone::text
