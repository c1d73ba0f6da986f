// The `added_tokens` of tokenizer.json: found in the text before anything is cut or merged.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/parts/aligned.h"
#include "text/parts/flat_map.h"
#include "text/parts/normalizers.h"
#include "text/parts/vocabulary.h"

namespace hone::text {

struct AddedToken {
  std::string content;
  std::int64_t id = -1;  // as the file says
  bool single_word = false, left_strip = false, right_strip = false, normalized = true, special = false;
};

AddedToken read_added_token(const nlohmann::json& config, const std::string& where);

// The text of a tokenizer.json with those of the tokens that its added_tokens lacks; nothing else changes.
std::string with_added_tokens(std::string_view json, const std::vector<AddedToken>& tokens);

// Finds the longest token at the leftmost place, as often as there is one.
class TokenTrie {
 public:
  bool add(std::string_view token, std::int32_t value);  // false: it is there already
  bool empty() const { return values_.size() == 1; }
  // The longest token that begins at `at`: its value and end; -1: none.
  std::int32_t match(std::string_view text, std::size_t at, std::size_t& end) const;
  // The first place at or after `at` where one may begin.
  std::size_t next(std::string_view text, std::size_t at) const;

 private:
  FlatMap edges_;                            // node << 8 | byte -> node
  std::vector<std::int32_t> values_ = {-1};  // by node
  bool first_[256] = {};
};

// Immutable once filled: any thread may call the const members.
class AddedTokens {
 public:
  // Gives each token the id that Hugging Face's library would; throws Error(config) when the file says another.
  void add(const std::vector<AddedToken>& tokens, const Vocabulary& model, const Normalizers& normalizers,
           const std::string& where);

  std::vector<AddedToken> list() const;                // by id
  bool looks_around() const { return looks_around_; }  // some token takes blanks or minds the letters beside it
  void split_raw(Work& work) const { split(work, raw_); }
  void split_normalized(Work& work) const { split(work, normalized_); }

  std::int32_t find(std::string_view content) const;  // -1: not added
  const std::string* token(std::int32_t id) const;    // nullptr: not added
  bool is_special(std::string_view content) const;
  std::int32_t end_id() const { return end_id_; }  // highest id + 1

 private:
  struct Entry {
    AddedToken token;
    std::string spelled;  // as decode() writes it: normalised, if the token is
  };
  void split(Work& work, const TokenTrie& trie) const;
  void split_piece(const Piece& piece, std::string_view text, const TokenTrie& trie, std::vector<Piece>& out) const;
  std::unordered_map<std::int32_t, Entry> entries_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, bool> special_;
  TokenTrie raw_, normalized_;
  std::int32_t end_id_ = 0;
  bool looks_around_ = false;
};

}  // namespace hone::text
