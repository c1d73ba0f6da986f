// Words of a text, and which tokens are of which word.
#include "data/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/option_words.h"
#include "hone/error.h"
#include "text/unicode/unicode.h"

namespace hone::data {
namespace {

// Scripts whose words have no blanks between them: Thai and Lao, Burmese, Khmer, kana, Han.
bool is_of_no_blanks(char32_t c) {
  constexpr text::Range kScripts[] = {{0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF}, {0x3040, 0x30FF},
                                      {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x3FFFF}};
  return std::any_of(std::begin(kScripts), std::end(kScripts),
                     [&](const text::Range& one) { return one.first <= c && c <= one.last; });
}

// What the tokenizer puts before and behind a text.
struct Around {
  std::vector<std::int32_t> before, behind;
  std::size_t size() const { return before.size() + behind.size(); }
};

Around around_of(const Tokenizer& tokenizer) {
  constexpr const char* kText = "a";
  const std::vector<std::int32_t> whole = tokenizer.encode(kText, true).ids, inner = tokenizer.encode(kText, false).ids;
  const auto begin = std::search(whole.begin(), whole.end(), inner.begin(), inner.end());
  HONE_ASSERT(!inner.empty() && begin != whole.end());
  return {{whole.begin(), begin}, {begin + std::ssize(inner), whole.end()}};
}

}  // namespace

std::vector<WordRange> words_in(std::string_view text) {
  const std::uint8_t* classes = text::class_table();
  std::vector<WordRange> words;
  bool goes_on = false;  // a run of letters and digits
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = static_cast<std::uint32_t>(at);
    const char32_t c = text::next_code_point(text, at);
    const auto end = static_cast<std::uint32_t>(at);
    const bool joins = (classes[c] & text::kCombiningMark) != 0 && !words.empty() && words.back().end == begin;
    const bool of_word = (classes[c] & text::kWord) != 0 && !is_of_no_blanks(c);
    if (joins || (of_word && goes_on))
      words.back().end = end;
    else if ((classes[c] & text::kSpace) == 0 && text::category_of(c) != text::Cc)
      words.push_back({begin, end});
    goes_on = joins ? goes_on : of_word;
  }
  return words;
}

JoinedWords join_words(const std::vector<std::string>& words) {
  JoinedWords made;
  for (const std::string& word : words) {
    if (!made.words.empty()) made.text += ' ';
    const auto begin = static_cast<std::uint32_t>(made.text.size());
    made.text += word;
    made.words.push_back({begin, static_cast<std::uint32_t>(made.text.size())});
  }
  return made;
}

WordTokens tokens_of_words(const Tokenizer& tokenizer, std::string_view text, const std::vector<WordRange>& words,
                           std::size_t most, bool keep_end) {
  const Encoding inner = tokenizer.encode(text, false);
  std::vector<WordTokens::Token> tokens;
  std::int32_t before = -1;
  std::size_t word = 0;
  for (std::size_t i = 0; i < inner.ids.size(); ++i) {
    const auto [begin, end] = inner.offsets[i];
    while (word < words.size() && words[word].end <= begin) ++word;
    const auto own = word < words.size() ? static_cast<std::int32_t>(word) : -1;
    tokens.push_back({inner.ids[i], own, own >= 0 && own != before, end});
    before = own;
  }
  const Around around = around_of(tokenizer);
  WordTokens made;
  if (most > 0 && most <= around.size())
    throw Error(ErrorKind::config, fmt::format("{}: got {}, expected more than the {} that the tokenizer puts around a "
                                               "text",
                                               option_words("data.max_length"), most, around.size()));
  if (const std::size_t room = most - around.size(); most > 0 && tokens.size() > room) {
    made.cut = static_cast<std::int64_t>(tokens.size() - room);
    keep_end ? tokens.erase(tokens.begin(), tokens.begin() + made.cut)
             : tokens.erase(tokens.end() - made.cut, tokens.end());
  }
  for (const std::int32_t id : around.before) made.tokens.push_back({.id = id});
  made.tokens.insert(made.tokens.end(), tokens.begin(), tokens.end());
  for (const std::int32_t id : around.behind) made.tokens.push_back({.id = id});
  return made;
}

}  // namespace hone::data
