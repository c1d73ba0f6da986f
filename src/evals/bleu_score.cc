#include "evals/bleu_score.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "hone/error.h"
#include "text/jinja/case.h"

namespace hone::evals {
namespace {

constexpr double kLogOfNothing = -9999999999;  // what sacrebleu takes for it

// Words have no spaces in them, so that an n-gram's words with one between are that n-gram alone.
using BleuNgrams = std::array<std::unordered_map<std::string, std::int64_t>, kBleuOrder>;

BleuNgrams bleu_ngrams(const std::vector<std::string>& words) {
  BleuNgrams all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string ngram;
    for (std::size_t n = 0; n < kBleuOrder && i + n < words.size(); ++n)
      ngram += (n == 0 ? "" : " ") + words[i + n], ++all[n][ngram];
  }
  return all;
}

std::vector<std::string> bleu_words(const std::string& text, BleuTokens how, bool lowercase) {
  return bleu_tokens(lowercase ? jinja::lower(text) : text, how);
}

}  // namespace

BleuCounts bleu_counts(const std::string& answer, const std::vector<std::string>& references, BleuTokens how,
                       bool lowercase) {
  HONE_ASSERT(!references.empty());
  const std::vector<std::string> words = bleu_words(answer, how, lowercase);
  BleuCounts counts;
  counts.answer = static_cast<double>(words.size());
  BleuNgrams wanted;
  bool is_first = true;
  for (const std::string& reference : references) {
    const std::vector<std::string> other = bleu_words(reference, how, lowercase);
    const BleuNgrams own = bleu_ngrams(other);
    for (std::size_t n = 0; n < kBleuOrder; ++n)
      for (const auto& [ngram, count] : own[n]) wanted[n][ngram] = std::max(wanted[n][ngram], count);
    const auto length = static_cast<double>(other.size());
    const double apart = std::abs(counts.answer - length), so_far = std::abs(counts.answer - counts.reference);
    if (is_first || apart < so_far || (apart == so_far && length < counts.reference)) counts.reference = length;
    is_first = false;
  }
  const BleuNgrams made = bleu_ngrams(words);
  for (std::size_t n = 0; n < kBleuOrder; ++n)
    for (const auto& [ngram, count] : made[n]) {
      const auto found = wanted[n].find(ngram);
      counts.all[n] += static_cast<double>(count);
      counts.hits[n] += found == wanted[n].end() ? 0 : static_cast<double>(std::min(count, found->second));
    }
  return counts;
}

BleuScore bleu_score(const BleuCounts& given, BleuSmoothing smoothing, double smooth_value, bool effective_order) {
  BleuScore made;
  BleuCounts counts = given;
  made.brevity_penalty = counts.answer >= counts.reference ? 1
                         : counts.answer > 0               ? std::exp(1 - counts.reference / counts.answer)
                                                           : 0;
  if (std::ranges::all_of(counts.hits, [](double hits) { return hits == 0; })) return made;
  double halves = 1;
  std::size_t order = kBleuOrder;
  for (std::size_t n = 0; n < kBleuOrder; ++n) {
    if (smoothing == BleuSmoothing::add_k && n > 0) counts.hits[n] += smooth_value, counts.all[n] += smooth_value;
    if (counts.all[n] == 0) break;
    if (effective_order) order = n + 1;
    if (counts.hits[n] > 0)
      made.precisions[n] = 100. * counts.hits[n] / counts.all[n];
    else if (smoothing == BleuSmoothing::exp)
      halves *= 2, made.precisions[n] = 100. / (halves * counts.all[n]);
    else if (smoothing == BleuSmoothing::floor)
      made.precisions[n] = 100. * smooth_value / counts.all[n];
  }
  double sum = 0;
  for (std::size_t n = 0; n < order; ++n)
    sum += made.precisions[n] == 0 ? kLogOfNothing : std::log(made.precisions[n]);
  made.score = made.brevity_penalty * std::exp(sum / static_cast<double>(order));
  return made;
}

}  // namespace hone::evals
