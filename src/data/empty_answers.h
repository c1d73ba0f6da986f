// Answers of which nothing is learnt but where they end.
#pragma once

#include <cstdint>

#include "hone/data.h"

namespace hone::data {

struct AnswerCounts {
  std::int64_t answers = 0, empty = 0;  // empty: white space at most, and what ends a text or a turn
};

// Of what follows a prompt and is learnt, turns of conversations each for itself. Reads all rows, but those of data
// without any prompt.
AnswerCounts count_answers(const Dataset& data, const Tokenizer& tokenizer);

}  // namespace hone::data
