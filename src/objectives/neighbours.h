// How well vectors of texts find what belongs together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hone/evaluation.h"
#include "nn/text_embedding.h"
#include "objectives/embedded_texts.h"

namespace hone::objectives {

// What a set is measured by: of_queries: which document is nearest to each query; by_score: how far the order of
// cosines is that of the scores; of_classes: which texts are nearest to each of those with a label; either: as the set
// has scores, or labels, or neither.
enum class Neighbours { of_queries, by_score, of_classes, either };
Neighbours neighbours_of(EmbeddingLoss type);  // as it is learnt

// What vectors are compared by: their cosine, or the dot product of what the folder's modules make of them; of the
// first `dims` numbers (0: all).
struct Similarity {
  bool dot = false, normalize = true;
  std::int64_t dims = 0;
};

// of_queries, as sentence-transformers' InformationRetrievalEvaluator: all documents of the set, each once, are
// candidates for each query (accuracy@1, mrr@10, ndcg@10), and of queries with others how many of these are farther
// away than the right one (triplet_accuracy). of_classes: all other texts are candidates for each, and those of its
// label are right ones. by_score: spearman_cosine (or spearman_dot), where scores differ.
// pooling: nothing: nn::usual_pooling().
std::shared_ptr<const Evaluation> make_neighbours(std::optional<nn::Pooling> pooling, Neighbours kind,
                                                  const Similarity& similarity = {});

}  // namespace hone::objectives
