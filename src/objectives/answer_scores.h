// How near an answer is to those that are good: exact match and F1, as SQuAD's official scripts measure them.
#pragma once

#include <string>
#include <vector>

namespace hone::objectives {

// In lower case, without punctuation and the articles a, an, the, with one blank between words.
std::string normalised_answer(const std::string& text);

struct AnswerScore {
  double exact = 0, f1 = 0;
};

// The best over the good answers. may_be_none: as version 2's script, in which an answer that has no word is none, and
// no answer is right where there is none; else as version 1's.
AnswerScore score_answer(const std::string& given, const std::vector<std::string>& good, bool may_be_none);

}  // namespace hone::objectives
