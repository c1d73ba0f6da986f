// Tokens that are hidden from a model, which is to say what they were.
#pragma once

#include "hone/batch.h"
#include "hone/objective.h"

namespace hone::objectives {

// Of each token that is no special one, on its own: whether it is to be said, and what the model sees in its place.
struct Masking {
  double share = 0.15;           // of the tokens
  double replaced = 0.8;         // of these: the tokenizer's mask token is seen
  double by_random_token = 0.1;  // of these: any token of the vocabulary; of the rest, the token itself
};

// Where such tokens lie in a batch, row by row: int64 [tokens] in Batch::extra.
inline constexpr const char* kHiddenPlaces = "hidden_places";

// The batch with such tokens, which alone have a label, at its own place, with the weight that learning it had. Hidden
// are tokens that were to be learnt, by the batch's labels, and with all others of a document its first one. What is
// drawn is a function of the seed, the step, the document's record and its tokens: how documents are spread over
// micro-batches and ranks changes nothing. `when`: of a step, or of an evaluation. REQUIRES: the tokenizer has a mask
// token.
Batch masked(const Batch& batch, const Masking& masking, const StepContext& context, const std::string& when);

}  // namespace hone::objectives
