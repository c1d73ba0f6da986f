// Where in a text the answer to a question stands: what a model's scores say of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hone/model.h"
#include "hone/questions.h"

namespace hone::objectives {

struct AnswerOptions {
  std::int64_t n_best = 20;             // beginnings, ends and answers that are looked at
  std::int64_t max_answer_length = 30;  // tokens
  std::optional<double>
      null_threshold;  // by how much no answer must be better than the best one; nothing: there is one
};

// A part of a window, by tokens of its document.
struct AnswerSpan {
  std::int64_t start = 0, end = 0;  // the end is included
  float score = 0;
};

// What a model says of one window: the likeliest parts, and how likely it holds none.
struct WindowAnswers {
  std::vector<AnswerSpan> spans;
  float null_score = 0;
};

// scores: of beginnings and of ends, by the document's tokens, of which [first, first + count) are of the text. As
// run_qa looks at them.
WindowAnswers answers_in(std::span<const float> starts, std::span<const float> ends, std::int64_t first,
                         std::int64_t count, const AnswerOptions& options);

struct FoundAnswer {
  std::string text;                   // "": the text does not say
  std::uint32_t begin = 0, end = 0;   // bytes of the context
  double score = 0, probability = 0;  // among the best ones
};
struct AnsweredQuestion {
  FoundAnswer given;
  std::vector<FoundAnswer> best;               // the likeliest first, with "" where options let there be none
  double null_score = 0, null_difference = 0;  // the latter: no answer's score less that of the best one
};

// Of all windows of a question. REQUIRES: as many docs as windows, one at least.
AnsweredQuestion answer_of(const std::vector<const QuestionDoc*>& docs, const std::vector<WindowAnswers>& windows,
                           const AnswerOptions& options);

// Of a batch's documents, [S, L, 2] in fp32 at least, their tokens from the first on, and which of these are there: L
// is of the longest.
struct DocumentLogits {
  Tensor logits_SL2, places_SL, there_SL;  // places: AnswerPlace of each token, -100 where it has none
};
DocumentLogits logits_by_document(const Tensor& logits_BT2, const Batch& batch);

// The mean of two cross-entropies, of where the answer begins and ends, summed over documents; which of them have both
// where the model says, [S]. Documents without a place add nothing.
struct AnswerLoss {
  Tensor sum, right_S;
};
AnswerLoss answer_loss(const DocumentLogits& made);

}  // namespace hone::objectives
