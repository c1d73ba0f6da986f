// ROUGE (Lin, 2004), as rouge_score 0.1.2 computes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hone::evals {

// Runs of ASCII letters and digits in lower case; use_stemmer: words of more than three by their stems.
std::vector<std::string> rouge_tokens(std::string_view text, bool use_stemmer);

struct RougeScore {
  double precision = 0, recall = 0, f = 0;
};
struct RougeScores {
  RougeScore one, two, longest, longest_of_lines;  // rouge1, rouge2, rougeL, rougeLsum
};
RougeScores rouge_score(const std::string& reference, const std::string& answer, bool use_stemmer);
// Of several references each score is that of the one with the highest f. REQUIRES: there is one.
RougeScores rouge_score(const std::vector<std::string>& references, const std::string& answer, bool use_stemmer);

}  // namespace hone::evals
