// Scores of queries with texts, as a cross-encoder gives them: a list of each query.
//
// Letters: Q queries, N texts of the query that has most.
#pragma once

#include <vector>

#include "hone/model.h"

namespace hone::nn {

// Of each query its texts, in their order; where it has fewer than N there is none.
struct TextLists {
  Tensor score_QN;  // fp64, a graph; 0 where there is none
  Tensor worth_QN;  // fp64: what they are worth to the query, as the data say; 0 where there is none
  Tensor there_QN;  // bool
};
// Of a batch of ranked records. What nobody has said is worth 1 of the first text and 0 of others. Error(config): the
// model has no head of one label.
TextLists text_lists(const Model& model, const Output& output, const Batch& batch, Pass& pass);

// The highest score that losses take which give a text two to the power of its score, less one.
inline constexpr double kMostGainScore = 100;

// Numbers of documents in Batch::docs: of each query its texts, in their order.
std::vector<std::vector<std::int64_t>> texts_of_queries(const Batch& batch);

}  // namespace hone::nn
