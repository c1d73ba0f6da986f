// chrF (Popović, 2015) and chrF++ (2017) of a set of answers, as sacrebleu computes them.
#pragma once

#include <string>
#include <vector>

namespace hone::evals {

struct ChrfOptions {
  std::size_t char_order = 6, word_order = 0;  // the longest n-grams of characters and of words
  double beta = 2;                             // by how much recall counts for more than precision
  bool lowercase = false, whitespace = false;  // whitespace: n-grams of characters have it
};

// Of an answer, and of several, as they add up: of each order three numbers, n-grams of the answer, of the reference,
// and of both. Of several references that of which the answer has the highest score.
std::vector<double> chrf_counts(const std::string& answer, const std::vector<std::string>& references,
                                const ChrfOptions& options);
double chrf_score(const std::vector<double>& counts, const ChrfOptions& options);  // 0 to 100

}  // namespace hone::evals
