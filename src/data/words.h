// Words of a text, and which tokens are of which word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hone/text.h"

namespace hone::data {

struct WordRange {
  std::uint32_t begin = 0, end = 0;  // bytes of the text
};

// Runs of letters and digits, with the punctuation that holds them together (Baden-Baden, O'Fallon, AT&T, 3.5, U.S.A.);
// 's; of scripts without blanks each sign; every other sign that is no blank. REQUIRES: UTF-8.
std::vector<WordRange> words_in(std::string_view text);

// Words with a blank between each two, and where they stand.
struct JoinedWords {
  std::string text;
  std::vector<WordRange> words;
};
JoinedWords join_words(const std::vector<std::string>& words);

// A text's tokens with what the tokenizer puts around them.
struct WordTokens {
  struct Token {
    std::int32_t id = 0;
    std::int32_t word = -1;  // -1: of none
    bool first = false;      // of its word
    std::uint32_t end = 0;   // of its bytes in the text
  };
  std::vector<Token> tokens;
  std::int64_t cut = 0;  // that were taken away, from the end or the start
};
// A token is of the word that its first sign which is no blank is of, or of the next one where it has none. most: 0 =
// as many as there are. Throws Error(config) where it is too few for what is put around.
WordTokens tokens_of_words(const Tokenizer& tokenizer, std::string_view text, const std::vector<WordRange>& words,
                           std::size_t most, bool keep_end);

}  // namespace hone::data
