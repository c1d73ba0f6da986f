// Questions of a data set: what its documents were made from.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "hone/source.h"

namespace hone {

// What the target of a question's token says: it is of no window of the text (-100), or of one, and whether the answer
// begins or ends there. Where a document has no answer, that is its first token, [CLS].
enum class AnswerPlace : std::int64_t { inside, start, end, start_and_end };

// A document of a question, which sees a window of the text.
struct QuestionDoc {
  std::shared_ptr<const QuestionRecord> asked = {};  // the same of all documents of a question
  std::uint32_t first = 0;                           // the document's first token that is of the text
  std::vector<std::pair<std::uint32_t, std::uint32_t>> bytes = {};  // of the text: begin and end of each such token
};

}  // namespace hone
