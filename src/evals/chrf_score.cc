#include "evals/chrf_score.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "evals/python_text.h"
#include "hone/error.h"
#include "text/jinja/case.h"

namespace hone::evals {
namespace {

// Of each order: first those of characters, then those of words.
using ChrfNgrams = std::vector<std::unordered_map<std::string, std::int64_t>>;

bool is_chrf_mark(char32_t c) {  // Python's string.punctuation
  return c > 0x20 && c < 0x7F && !(c >= U'0' && c <= U'9') && !(c >= U'A' && c <= U'Z') && !(c >= U'a' && c <= U'z');
}

// A mark at the end of a word is one of its own, or else one at its beginning.
std::vector<std::string> chrf_words(const std::string& text) {
  std::vector<std::string> all;
  for (const std::string& word : python_split(text)) {
    const std::u32string letters = code_points(word);
    const std::size_t n = letters.size(), cut = n == 1               ? 0
                                                : is_chrf_mark(letters.back()) ? n - 1
                                                : is_chrf_mark(letters[0])     ? 1
                                                                          : 0;
    if (cut > 0) all.push_back(as_utf8(std::u32string_view(letters).substr(0, cut)));
    all.push_back(as_utf8(std::u32string_view(letters).substr(cut)));
  }
  return all;
}

ChrfNgrams chrf_ngrams(const std::string& given, const ChrfOptions& options) {
  const std::string text = options.lowercase ? jinja::lower(given) : given;
  std::u32string letters;
  for (const char32_t c : code_points(text))
    if (options.whitespace || !jinja::is_space(c)) letters += c;
  ChrfNgrams all(options.char_order + options.word_order);
  for (std::size_t n = 1; n <= options.char_order; ++n)
    for (std::size_t i = 0; i + n <= letters.size(); ++i)
      ++all[n - 1][as_utf8(std::u32string_view(letters).substr(i, n))];
  if (options.word_order == 0) return all;
  const std::vector<std::string> words = chrf_words(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string ngram;
    for (std::size_t n = 0; n < options.word_order && i + n < words.size(); ++n)
      ngram += (n == 0 ? "" : " ") + words[i + n], ++all[options.char_order + n][ngram];
  }
  return all;
}

std::vector<double> chrf_counts_of(const ChrfNgrams& answer, const ChrfNgrams& reference) {
  std::vector<double> counts;
  for (std::size_t n = 0; n < answer.size(); ++n) {
    double made = 0, wanted = 0, both = 0;
    for (const auto& [ngram, count] : answer[n]) {
      const auto found = reference[n].find(ngram);
      made += static_cast<double>(count);
      both += found == reference[n].end() ? 0 : static_cast<double>(std::min(count, found->second));
    }
    for (const auto& [ngram, count] : reference[n]) wanted += static_cast<double>(count);
    counts.insert(counts.end(), {wanted > 0 ? made : 0, wanted, both});  // of what no reference has nothing counts
  }
  return counts;
}

}  // namespace

double chrf_score(const std::vector<double>& counts, const ChrfOptions& options) {
  double precision = 0, recall = 0, orders = 0;
  for (std::size_t i = 0; i + 2 < counts.size(); i += 3) {
    if (counts[i] == 0 || counts[i + 1] == 0) continue;
    precision += counts[i + 2] / counts[i], recall += counts[i + 2] / counts[i + 1];
    ++orders;
  }
  if (orders > 0) precision /= orders, recall /= orders;
  if (precision + recall == 0) return 0;
  const double factor = options.beta * options.beta;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

std::vector<double> chrf_counts(const std::string& answer, const std::vector<std::string>& references,
                                const ChrfOptions& options) {
  HONE_ASSERT(!references.empty());
  const ChrfNgrams made = chrf_ngrams(answer, options);
  std::vector<double> best;
  double best_score = -1;
  for (const std::string& reference : references) {
    std::vector<double> counts = chrf_counts_of(made, chrf_ngrams(reference, options));
    if (const double score = chrf_score(counts, options); score > best_score)
      best_score = score, best = std::move(counts);
  }
  return best;
}

}  // namespace hone::evals
