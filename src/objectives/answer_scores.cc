// SQuAD's measures (Rajpurkar et al., 2016 and 2018).
#include "objectives/answer_scores.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace hone::objectives {
namespace {

// As Python's \w, which a word's ends go by.
bool is_of_word(char32_t c) {
  const auto category = text::category_of(c);
  return c == '_' || category == text::Lu || category == text::Ll || category == text::Lt || category == text::Lm ||
         category == text::Lo || category == text::Nd || category == text::Nl || category == text::No;
}

bool is_blank(char32_t c) { return (text::class_table()[c] & text::kSpace) != 0 || (c >= 0x1C && c <= 0x1F); }

bool is_punctuation(char32_t c) { return c < 0x80 && std::ispunct(static_cast<int>(c)) != 0; }

std::u32string lowered(const std::string& text) {
  std::u32string made;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = text::next_code_point(text, at);
    if (is_punctuation(c)) continue;
    char32_t second = 0;
    made += text::lower_case(c, second);
    if (second != 0) made += second;
  }
  return made;
}

bool is_article(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

// Of what lies between blanks, without runs of letters that are articles.
std::vector<std::string> words_of(const std::string& text) {
  const std::u32string all = lowered(text);
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && is_of_word(all[end])) ++end;
    if (end > i) {
      const std::u32string_view run = std::u32string_view(all).substr(i, end - i);
      if (is_article(run))
        end_word();
      else
        for (const char32_t c : run) text::append_utf8(word, c);
      i = end;
      continue;
    }
    is_blank(all[i]) ? end_word() : text::append_utf8(word, all[i]);
    ++i;
  }
  end_word();
  return words;
}

double f1_of(const std::vector<std::string>& given, const std::vector<std::string>& good) {
  std::map<std::string, std::int64_t> left;
  for (const std::string& word : good) ++left[word];
  double same = 0;
  for (const std::string& word : given)
    if (const auto found = left.find(word); found != left.end() && found->second > 0) --found->second, ++same;
  return same == 0 ? 0 : 2 * same / static_cast<double>(given.size() + good.size());
}

}  // namespace

std::string normalised_answer(const std::string& text) { return join(words_of(text), " "); }

AnswerScore score_answer(const std::string& given, const std::vector<std::string>& good, bool may_be_none) {
  const std::vector<std::string> words = words_of(given);
  std::vector<std::vector<std::string>> all;
  for (const std::string& one : good) all.push_back(words_of(one));
  if (may_be_none) {
    std::erase_if(all, [](const auto& one) { return one.empty(); });
    if (all.empty()) all.emplace_back();
  }
  AnswerScore score;
  for (const auto& one : all) {
    const bool same = words == one, none = words.empty() || one.empty();
    score.exact = std::max(score.exact, same ? 1.0 : 0.0);
    score.f1 = std::max(score.f1, may_be_none && none ? (same ? 1.0 : 0.0) : f1_of(words, one));
  }
  return score;
}

}  // namespace hone::objectives
