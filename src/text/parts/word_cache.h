// What short words became: a table indexed by hash in which the newest word wins.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/parts/model.h"

namespace hone::text {

// One thread at a time.
class WordCache {
 public:
  static constexpr std::size_t kBytes = 22;  // longer words are not kept

  // Appends the tokens of a word that is known, with `begin` added to their places.
  bool find(std::string_view word, std::uint32_t begin, std::vector<Token>& out) {
    if (word.size() > kBytes) return false;
    place_ = &words_[hash_token(word) % kWords];
    if (place_->size != word.size() || std::memcmp(place_->word, word.data(), word.size()) != 0) return false;
    std::uint32_t at = begin;
    for (unsigned i = 0; i < place_->count; ++i) {
      const std::uint32_t end = begin + place_->ends[i];
      out.push_back({place_->ids[i], at, end});
      at = end;
    }
    return true;
  }
  // Keeps what find() did not know: out[first..] for the same word. Tokens must follow each other without gaps.
  void keep(std::string_view word, std::uint32_t begin, const std::vector<Token>& out, std::size_t first) {
    const std::size_t count = out.size() - first;
    if (word.size() > kBytes || word.empty() || count > kTokens) return;
    std::uint32_t at = begin;
    for (std::size_t i = 0; i < count; ++i) {
      const Token& t = out[first + i];
      if (t.begin != at || t.end - begin > 255) {
        place_->size = 0;
        return;
      }
      place_->ids[i] = t.id;
      place_->ends[i] = static_cast<std::uint8_t>(t.end - begin);
      at = t.end;
    }
    place_->size = static_cast<std::uint8_t>(word.size());
    place_->count = static_cast<std::uint8_t>(count);
    std::memcpy(place_->word, word.data(), word.size());
  }

 private:
  static constexpr std::size_t kWords = 1 << 14, kTokens = 8;
  struct alignas(64) Word {
    std::uint8_t size = 0, count = 0;
    char word[kBytes];
    std::int32_t ids[kTokens];
    std::uint8_t ends[kTokens];
  };
  std::vector<Word> words_ = std::vector<Word>(kWords);
  Word* place_ = nullptr;
};

}  // namespace hone::text
