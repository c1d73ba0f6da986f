// Scores of pairs of answers, as a reward model gives them.
//
// Letters: P pairs.
#pragma once

#include <string>

#include "hone/model.h"

namespace hone::nn {

// Error(config) when the model's head is not one of a single label, whose logit is the score of a document.
const Classifier& require_score(const Model& model, const std::string& what);

// Of a batch of preference records, in fp64, with a graph; both sides of a pair at the same place.
struct PairScores {
  Tensor chosen_P, rejected_P;
};
PairScores pair_scores(const Model& model, const Output& output, const Batch& batch, Pass& pass);

}  // namespace hone::nn
