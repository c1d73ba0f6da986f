// Losses of vectors of texts: of pairs that are to lie near each other, among all that a step has.
//
// Letters: P pairs, O other documents, D numbers of a vector.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/batch.h"
#include "hone/config.h"

namespace hone {

namespace objectives {
enum class EmbeddingLoss { multiple_negatives_ranking, triplet, cosent, cosine_similarity };
enum class Distance { cosine, euclidean, manhattan, squared_euclidean };
}  // namespace objectives

template <>
inline constexpr auto config::enum_names<objectives::EmbeddingLoss> =
    std::to_array<std::pair<objectives::EmbeddingLoss, std::string_view>>(
        {{objectives::EmbeddingLoss::multiple_negatives_ranking, "multiple_negatives_ranking"},
         {objectives::EmbeddingLoss::triplet, "triplet"},
         {objectives::EmbeddingLoss::cosent, "cosent"},
         {objectives::EmbeddingLoss::cosine_similarity, "cosine_similarity"}});

template <>
inline constexpr auto config::enum_names<objectives::Distance> =
    std::to_array<std::pair<objectives::Distance, std::string_view>>({{objectives::Distance::cosine, "cosine"},
                                                                      {objectives::Distance::euclidean, "euclidean"},
                                                                      {objectives::Distance::manhattan, "manhattan"},
                                                                      {objectives::Distance::squared_euclidean,
                                                                       "squared_euclidean"}});

namespace objectives {

// What is compared: the vectors, and what is known of their texts.
struct EmbeddedTexts {
  Tensor query_PD, document_PD, other_OD;              // fp64; a graph through them
  Tensor owner_O;                                      // int64: of each other document its pair
  Tensor query_text_P, document_text_P, other_text_O;  // int64: equal for equal texts; undefined: nobody knows
  Tensor score_P;                                      // fp64; undefined: there are none
};

struct EmbeddingLossSettings {
  EmbeddingLoss type = EmbeddingLoss::multiple_negatives_ranking;
  double temperature = 0.05, margin = 0.2;
  Distance distance = Distance::cosine;
  bool unit_length = true;  // of the vectors that distances are of
};

// Whether a pair's loss depends on others of the step.
bool compares_pairs(EmbeddingLoss type);
// What the sum of losses is divided by: "pairs", or "triplets", of which each other document is one.
const char* counted_of(EmbeddingLoss type);

// Of each pair, [P], or of each triplet, [O]; from the first `dims` numbers of the vectors (0: all).
Tensor losses_of(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);
// Of each of them whether the nearest document is the right one; undefined: there is none to compare with.
Tensor right_ones(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings);

}  // namespace objectives
}  // namespace hone
