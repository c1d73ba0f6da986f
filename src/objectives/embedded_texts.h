// What losses of vectors of texts are of: the texts of a step, and what is asked of them.
//
// Letters: P pairs, O other documents, D numbers of a vector.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/batch.h"
#include "hone/config.h"

namespace hone {

namespace objectives {
enum class EmbeddingLoss {
  multiple_negatives_ranking,
  gist,
  triplet,
  cosent,
  angle,
  cosine_similarity,
  margin_mse,
  distill_kl_div,
  batch_all_triplet,
  batch_hard_triplet,
  batch_hard_soft_margin_triplet,
  batch_semi_hard_triplet
};
enum class Distance { cosine, euclidean, manhattan, squared_euclidean };
// Of multiple_negatives_ranking: whose likeness to what stands in the denominator.
enum class Direction { query_to_doc, query_to_query, doc_to_query, doc_to_doc };
enum class PartitionMode { joint, per_direction };
enum class HardnessMode { in_batch_negatives, hard_negatives, all_negatives };
enum class MarginStrategy { absolute, relative };
}  // namespace objectives

template <>
inline constexpr auto config::enum_names<objectives::EmbeddingLoss> =
    std::to_array<std::pair<objectives::EmbeddingLoss, std::string_view>>(
        {{objectives::EmbeddingLoss::multiple_negatives_ranking, "multiple_negatives_ranking"},
         {objectives::EmbeddingLoss::gist, "gist"},
         {objectives::EmbeddingLoss::triplet, "triplet"},
         {objectives::EmbeddingLoss::cosent, "cosent"},
         {objectives::EmbeddingLoss::angle, "angle"},
         {objectives::EmbeddingLoss::cosine_similarity, "cosine_similarity"},
         {objectives::EmbeddingLoss::margin_mse, "margin_mse"},
         {objectives::EmbeddingLoss::distill_kl_div, "distill_kl_div"},
         {objectives::EmbeddingLoss::batch_all_triplet, "batch_all_triplet"},
         {objectives::EmbeddingLoss::batch_hard_triplet, "batch_hard_triplet"},
         {objectives::EmbeddingLoss::batch_hard_soft_margin_triplet, "batch_hard_soft_margin_triplet"},
         {objectives::EmbeddingLoss::batch_semi_hard_triplet, "batch_semi_hard_triplet"}});

template <>
inline constexpr auto config::enum_names<objectives::Distance> =
    std::to_array<std::pair<objectives::Distance, std::string_view>>({{objectives::Distance::cosine, "cosine"},
                                                                      {objectives::Distance::euclidean, "euclidean"},
                                                                      {objectives::Distance::manhattan, "manhattan"},
                                                                      {objectives::Distance::squared_euclidean,
                                                                       "squared_euclidean"}});

template <>
inline constexpr auto config::enum_names<objectives::Direction> =
    std::to_array<std::pair<objectives::Direction, std::string_view>>(
        {{objectives::Direction::query_to_doc, "query_to_doc"},
         {objectives::Direction::query_to_query, "query_to_query"},
         {objectives::Direction::doc_to_query, "doc_to_query"},
         {objectives::Direction::doc_to_doc, "doc_to_doc"}});
template <>
inline constexpr auto config::enum_names<objectives::PartitionMode> =
    std::to_array<std::pair<objectives::PartitionMode, std::string_view>>(
        {{objectives::PartitionMode::joint, "joint"}, {objectives::PartitionMode::per_direction, "per_direction"}});
template <>
inline constexpr auto config::enum_names<objectives::HardnessMode> =
    std::to_array<std::pair<objectives::HardnessMode, std::string_view>>(
        {{objectives::HardnessMode::in_batch_negatives, "in_batch_negatives"},
         {objectives::HardnessMode::hard_negatives, "hard_negatives"},
         {objectives::HardnessMode::all_negatives, "all_negatives"}});
template <>
inline constexpr auto config::enum_names<objectives::MarginStrategy> =
    std::to_array<std::pair<objectives::MarginStrategy, std::string_view>>(
        {{objectives::MarginStrategy::absolute, "absolute"}, {objectives::MarginStrategy::relative, "relative"}});

namespace objectives {

// What is compared: the vectors, and what is known of their texts.
struct EmbeddedTexts {
  Tensor query_PD, document_PD, other_OD;              // fp64; a graph through them
  Tensor owner_O;                                      // int64: of each other document its pair
  Tensor query_text_P, document_text_P, other_text_O;  // int64: equal for equal texts; undefined: nobody knows
  Tensor score_P;                                      // fp64; undefined: there are none
  Tensor teacher_P, teacher_O;                         // fp64: of pairs' documents and of others; likewise
  Tensor class_P;  // int64: equal for texts of one label, each of which is a query without a document; likewise
  Tensor guide_query_PD, guide_document_PD, guide_other_OD;  // of gist: what the guide makes of the same texts
};

struct EmbeddingLossSettings {
  EmbeddingLoss type = EmbeddingLoss::multiple_negatives_ranking;
  double temperature = 0.05, margin = 0.2;
  double teacher_temperature = 1;  // of distill_kl_div
  Distance distance = Distance::cosine;
  bool unit_length = true;  // of the vectors that distances are of
  bool dot = false;         // what is ranked by: dot products, and else cosines
  std::vector<Direction> directions = {Direction::query_to_doc};
  PartitionMode partition_mode = PartitionMode::joint;
  std::optional<HardnessMode> hardness_mode = {};
  double hardness_strength = 0;
  MarginStrategy margin_strategy = MarginStrategy::absolute;  // of gist, as the next
  bool contrast_anchors = true, contrast_positives = true;
};

}  // namespace objectives
}  // namespace hone
