// How well vectors of texts' tokens find what belongs together.
#pragma once

#include <memory>

#include "hone/evaluation.h"
#include "nn/token_vectors.h"

namespace hone::objectives {

// What make_neighbours() measures of queries, as sentence-transformers' MultiVectorInformationRetrievalEvaluator and
// MultiVectorTripletEvaluator: texts are compared token by token.
std::shared_ptr<const Evaluation> make_late_neighbours(bool normalize, nn::TokenSimilarity similarity);

}  // namespace hone::objectives
