// Translation edit rate (Snover et al., 2006) of a set of answers, as sacrebleu computes it.
#pragma once

#include <string>
#include <vector>

namespace hone::evals {

struct TerOptions {
  bool normalized = false, no_punct = false, case_sensitive = false;
};

// Of answers: they add up.
struct TerCounts {
  double edits = 0, reference = 0;  // of the reference that takes fewest; words of a reference, the mean over them
};
TerCounts ter_counts(const std::string& answer, const std::vector<std::string>& references, const TerOptions& options);
double ter_score(const TerCounts& counts);  // 0 is best; 100: as many edits as words

// How many insertions, deletions, changes of a word and shifts of some words make the answer the reference: by Tercom's
// search, which shifts the words that save most.
int ter_edits(std::vector<std::string> answer, const std::vector<std::string>& reference);

}  // namespace hone::evals
