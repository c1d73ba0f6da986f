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

bool is_in(char32_t c, std::u32string_view signs) { return signs.find(c) != std::u32string_view::npos; }

// Cuts a text into words, a sign after the other.
class WordCutter {
 public:
  explicit WordCutter(std::string_view text) : text_(text) {}
  std::vector<WordRange> cut() {
    for (std::size_t at = 0; at < text_.size();) {
      const auto begin = static_cast<std::uint32_t>(at);
      const char32_t c = text::next_code_point(text_, at);
      add(c, begin, static_cast<std::uint32_t>(at));
    }
    return std::move(words_);
  }

 private:
  void add(char32_t c, std::uint32_t begin, std::uint32_t end) {
    const text::Category category = text::category_of(c);
    const bool is_format = category == text::Cf;  // as a soft hyphen: shown nowhere, so it begins no word
    const bool touches = !words_.empty() && words_.back().end == begin;
    if (touches && (is_format || (classes_[c] & text::kCombiningMark) != 0)) return void(words_.back().end = end);
    const bool of_word = !is_format && is_of_word(c);
    if (goes_on_ && (of_word || binds(c, end) || (c == '.' && ends_initials(end)))) {
      words_.back().end = end;
      initials_ = initials_ && (of_word ? before_ == '.' && is_letter(c) : c == '.');
    } else if (!is_format && category != text::Cc && (classes_[c] & text::kSpace) == 0) {
      words_.push_back({begin, end});
      initials_ = of_word && is_letter(c);
    }
    goes_on_ = of_word || (goes_on_ && (binds(c, end) || is_possessive(c, end)));
    before_ = c;
  }

  bool is_of_word(char32_t c) const { return (classes_[c] & text::kWord) != 0 && !is_of_no_blanks(c); }
  bool is_letter(char32_t c) const { return (classes_[c] & text::kLetter) != 0; }
  bool is_number(char32_t c) const { return (classes_[c] & text::kNumber) != 0; }
  char32_t sign_at(std::size_t at) const { return at < text_.size() ? text::next_code_point(text_, at) : U' '; }

  // Whether it holds together what stands at its both sides: Baden-Baden, O'Fallon, AT&T, 3.5, 10:30.
  bool binds(char32_t c, std::size_t end) const {
    const char32_t next = sign_at(end);
    if (is_in(c, U",:/")) return is_number(before_) && is_number(next);
    return is_in(c, U".-\u2010\u2011'\u2019&@\u00B7") && is_of_word(before_) && is_of_word(next) &&
           !is_possessive(c, end);
  }
  // The 's behind a name.
  bool is_possessive(char32_t c, std::size_t end) const {
    return is_in(c, U"'\u2019") && is_in(sign_at(end), U"sS") && !is_of_word(sign_at(end + 1));
  }
  // Behind a letter that stands alone, or between full stops: U.S.A., e.g., and in names J., but not at a text's end.
  bool ends_initials(std::size_t end) const {
    if (!initials_ || !is_letter(before_)) return false;
    const WordRange& word = words_.back();
    const bool several = text_.substr(word.begin, word.end - word.begin).find('.') != std::string_view::npos;
    const bool goes_on = text_.find_first_not_of(" \t\r\n", end) != std::string_view::npos;
    return several || (text::category_of(before_) == text::Lu && goes_on);
  }

  const std::string_view text_;
  const std::uint8_t* const classes_ = text::class_table();
  std::vector<WordRange> words_;
  bool goes_on_ = false;   // the last word, with letters and digits
  bool initials_ = false;  // it is a letter, or letters with a full stop behind each
  char32_t before_ = U' ';
};

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

std::vector<WordRange> words_in(std::string_view text) { return WordCutter(text).cut(); }

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
