// How well sparse vectors of texts find what belongs together, and how sparse they are.
#pragma once

#include <cstdint>
#include <memory>

#include "hone/evaluation.h"
#include "nn/splade.h"
#include "objectives/neighbours.h"

namespace hone::objectives {

// What sparse vectors are compared by, and how many of the largest weights of each count (0: all).
struct SparseSimilarity {
  bool dot = true;
  std::int64_t max_active_dims = 0;
};

// What make_neighbours() measures, of sparse vectors, with what sentence-transformers' SparseInformationRetrieval-
// Evaluator says of them: the mean number of weights that are not 0 (query_active_dims, corpus_active_dims), the share
// that is 0 (…_sparsity_ratio), and products of a query with a document (avg_flops); by_score: active_dims and
// sparsity_ratio of both texts.
std::shared_ptr<const Evaluation> make_sparse_neighbours(const nn::SpladeForm& form, Neighbours kind,
                                                         const SparseSimilarity& similarity = {});

}  // namespace hone::objectives
