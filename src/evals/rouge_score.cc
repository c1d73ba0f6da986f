#include "evals/rouge_score.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/strings.h"
#include "evals/porter.h"
#include "hone/error.h"
#include "text/unicode/unicode.h"

namespace hone::evals {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kStemmed = 4;  // letters that a word has at least whose stem is taken

RougeScore rouge_of(double hits, double of_answer, double of_reference) {
  RougeScore made{hits / of_answer, hits / of_reference};
  const double sum = made.precision + made.recall;
  if (sum > 0) made.f = 2 * made.precision * made.recall / sum;
  return made;
}

std::map<Words, std::int64_t> rouge_ngrams(const Words& words, std::size_t n) {
  std::map<Words, std::int64_t> counts;
  for (std::size_t i = 0; i + n <= words.size(); ++i)
    ++counts[Words(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i + n))];
  return counts;
}

RougeScore score_ngrams(const Words& reference, const Words& answer, std::size_t n) {
  const auto wanted = rouge_ngrams(reference, n), made = rouge_ngrams(answer, n);
  std::int64_t hits = 0, of_reference = 0, of_answer = 0;
  for (const auto& [ngram, count] : made) {
    const auto found = wanted.find(ngram);
    hits += found == wanted.end() ? 0 : std::min(count, found->second);
    of_answer += count;
  }
  for (const auto& [ngram, count] : wanted) of_reference += count;
  const auto at_least_one = [](std::int64_t count) { return static_cast<double>(std::max<std::int64_t>(count, 1)); };
  return rouge_of(static_cast<double>(hits), at_least_one(of_answer), at_least_one(of_reference));
}

// Which words of the reference are in a longest common subsequence.
class Longest {
 public:
  Longest(const Words& reference, const Words& answer)
      : reference_(reference), answer_(answer), width_(answer.size() + 1), table_((reference.size() + 1) * width_) {
    for (std::size_t i = 1; i <= reference.size(); ++i)
      for (std::size_t j = 1; j < width_; ++j)
        at(i, j) = reference[i - 1] == answer[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
  }
  std::int64_t length() { return at(reference_.size(), answer_.size()); }
  void add_places(std::set<std::size_t>& places) {
    std::size_t i = reference_.size(), j = answer_.size();
    while (i > 0 && j > 0) {
      if (reference_[i - 1] == answer_[j - 1])
        places.insert(--i), --j;
      else if (at(i, j - 1) > at(i - 1, j))
        --j;
      else
        --i;
    }
  }

 private:
  std::int32_t& at(std::size_t i, std::size_t j) { return table_[i * width_ + j]; }
  const Words &reference_, &answer_;
  std::size_t width_;
  std::vector<std::int32_t> table_;
};

RougeScore score_longest(const Words& reference, const Words& answer) {
  if (reference.empty() || answer.empty()) return {};
  return rouge_of(static_cast<double>(Longest(reference, answer).length()), static_cast<double>(answer.size()),
                  static_cast<double>(reference.size()));
}

std::vector<Words> lines_of(const std::string& text, bool use_stemmer) {
  std::vector<Words> lines;
  for (const std::string& line : split(text, '\n'))
    if (!line.empty()) lines.push_back(rouge_tokens(line, use_stemmer));
  return lines;
}

// Each line of the reference with all lines of the answer; no word counts more often than it is there.
RougeScore score_lines(const std::vector<Words>& reference, const std::vector<Words>& answer) {
  std::map<std::string, std::int64_t> left_of_reference, left_of_answer;
  double of_reference = 0, of_answer = 0, hits = 0;
  for (const Words& line : reference)
    for (const std::string& word : line) ++left_of_reference[word], ++of_reference;
  for (const Words& line : answer)
    for (const std::string& word : line) ++left_of_answer[word], ++of_answer;
  if (of_reference == 0 || of_answer == 0) return {};
  for (const Words& line : reference) {
    std::set<std::size_t> places;
    for (const Words& other : answer) Longest(line, other).add_places(places);
    for (const std::size_t place : places) {
      std::int64_t &a = left_of_answer[line[place]], &r = left_of_reference[line[place]];
      if (a > 0 && r > 0) ++hits, --a, --r;
    }
  }
  return rouge_of(hits, of_answer, of_reference);
}

void take_higher(RougeScore& best, const RougeScore& other) {
  if (other.f > best.f) best = other;
}

}  // namespace

std::vector<std::string> rouge_tokens(std::string_view text, bool use_stemmer) {
  Words words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    char32_t second = 0;
    const char32_t c = text::lower_case(text::next_code_point(text, at), second);
    const bool is_part = (c >= U'a' && c <= U'z') || (c >= U'0' && c <= U'9');
    if (is_part && !inside) words.emplace_back();
    if (is_part) words.back() += static_cast<char>(c);
    inside = is_part && second == 0;
  }
  if (use_stemmer)
    for (std::string& word : words)
      if (word.size() >= kStemmed) word = porter_stem(word);
  return words;
}

RougeScores rouge_score(const std::string& reference, const std::string& answer, bool use_stemmer) {
  const Words wanted = rouge_tokens(reference, use_stemmer), made = rouge_tokens(answer, use_stemmer);
  return {score_ngrams(wanted, made, 1), score_ngrams(wanted, made, 2), score_longest(wanted, made),
          score_lines(lines_of(reference, use_stemmer), lines_of(answer, use_stemmer))};
}

RougeScores rouge_score(const std::vector<std::string>& references, const std::string& answer, bool use_stemmer) {
  HONE_ASSERT(!references.empty());
  RougeScores best = rouge_score(references[0], answer, use_stemmer);
  for (std::size_t i = 1; i < references.size(); ++i) {
    const RougeScores other = rouge_score(references[i], answer, use_stemmer);
    take_higher(best.one, other.one), take_higher(best.two, other.two);
    take_higher(best.longest, other.longest), take_higher(best.longest_of_lines, other.longest_of_lines);
  }
  return best;
}

}  // namespace hone::evals
