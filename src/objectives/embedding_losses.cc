// Losses of vectors of texts.
#include "objectives/embedding_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <set>

#include "nn/text_embedding.h"
#include "objectives/class_losses.h"
#include "objectives/ranking_losses.h"
#include "objectives/teacher_losses.h"

namespace hone::objectives {
namespace {

constexpr double kNoTerm = -std::numeric_limits<double>::infinity();

// How far a query is from a document, row by row.
Tensor distances(const Tensor& a, const Tensor& b, Distance distance) {
  if (distance == Distance::cosine) return 1 - (nn::unit_rows(a) * nn::unit_rows(b)).sum(1);
  if (distance == Distance::manhattan) return at::pairwise_distance(a, b, /*p=*/1);
  if (distance == Distance::euclidean) return at::pairwise_distance(a, b);
  return (a - b).square().sum(1);
}

// How much nearer each other document is than the pair's own, and by how much too near.
Tensor margins_O(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const auto kept = [&](const Tensor& rows) {
    return settings.unit_length || dims > 0 ? nn::unit_rows(rows, dims) : rows;
  };
  const Tensor near_P = distances(kept(texts.query_PD), kept(texts.document_PD), settings.distance);
  const Tensor query_OD = texts.query_PD.index_select(0, texts.owner_O);
  const Tensor far_O = distances(kept(query_OD), kept(texts.other_OD), settings.distance);
  return near_P.index_select(0, texts.owner_O) - far_O;
}

Tensor cosine_P(const EmbeddedTexts& texts, std::int64_t dims) {
  return (nn::unit_rows(texts.query_PD, dims) * nn::unit_rows(texts.document_PD, dims)).sum(1);
}

// |cosine + sine|, where a vector's halves are the real and the imaginary parts of complex numbers (AnglE: Li and Li,
// 2024, arXiv:2309.12871).
Tensor angle_P(const EmbeddedTexts& texts, std::int64_t dims) {
  const auto even = [&](const Tensor& rows) {
    const Tensor unit = nn::unit_rows(rows, dims);
    return unit.size(1) % 2 == 0 ? unit : at::constant_pad_nd(unit, {0, 1});
  };
  const Tensor query_PD = even(texts.query_PD), document_PD = even(texts.document_PD);
  const std::int64_t half = query_PD.size(1) / 2;
  const auto first = [&](const Tensor& rows) { return rows.narrow(1, 0, half); };
  const auto last = [&](const Tensor& rows) { return rows.narrow(1, half, half); };
  const Tensor sine_P = (last(query_PD) * first(document_PD) - first(query_PD) * last(document_PD)).sum(1);
  return ((query_PD * document_PD).sum(1) + sine_P).abs();
}

// One number for all pairs (Huang et al., 2024, CoSENT): log(1 + sum of exp((cos_j - cos_i) / temperature)) over all
// i, j of which i is to be more alike. Each pair has it, so that their mean is it.
Tensor cosent_P(const EmbeddedTexts& texts, const Tensor& alike_P, double temperature) {
  const Tensor cosine = alike_P / temperature;
  const Tensor difference_PP = cosine.unsqueeze(0) - cosine.unsqueeze(1);  // [i,j]: cos_j - cos_i
  const Tensor wrong_PP = texts.score_P.unsqueeze(1).le(texts.score_P.unsqueeze(0));
  const Tensor terms = difference_PP.masked_fill(wrong_PP, kNoTerm).flatten();
  return at::cat({terms, at::zeros({1}, terms.options())}).logsumexp(0).expand({cosine.size(0)});
}

}  // namespace

void check_ranking(EmbeddingLoss type, const RankingOptions& options, Problems& problems) {
  const auto& [directions, partition_mode, hardness_mode, hardness_strength] = options;
  const auto has = [&](Direction direction) { return std::ranges::count(directions, direction) > 0; };
  const bool ranks = type == EmbeddingLoss::multiple_negatives_ranking,
             usual = directions == std::vector{Direction::query_to_doc};
  constexpr const char* kOnly = "only with loss_type multiple_negatives_ranking";
  problems.require(ranks || usual, "directions", kOnly);
  problems.require(has(Direction::query_to_doc), "directions", "expected query_to_doc among them");
  problems.require(std::set(directions.begin(), directions.end()).size() == directions.size(), "directions",
                   "got one of them twice, expected each once");
  const bool joint = partition_mode == PartitionMode::joint;
  problems.require(joint || directions.size() > 1, "partition_mode",
                   "got per_direction with one of directions, expected several");
  problems.require(joint || !(has(Direction::query_to_query) || has(Direction::doc_to_doc)), "partition_mode",
                   "got per_direction, expected joint: what query_to_query and doc_to_doc compare is never right");
  problems.require(ranks || !hardness_mode, "hardness_mode", kOnly);
  problems.require(hardness_mode.has_value() == (hardness_strength > 0), "hardness_strength",
                   "goes with hardness_mode; expected both, or none of them");
}

bool is_ranking(EmbeddingLoss type) {
  return type == EmbeddingLoss::multiple_negatives_ranking || type == EmbeddingLoss::gist;
}
bool learns_scores(EmbeddingLoss type) {
  return type == EmbeddingLoss::cosent || type == EmbeddingLoss::angle || type == EmbeddingLoss::cosine_similarity;
}
bool learns_teachers(EmbeddingLoss type) {
  return type == EmbeddingLoss::margin_mse || type == EmbeddingLoss::distill_kl_div;
}
bool learns_labels(EmbeddingLoss type) {
  return type == EmbeddingLoss::batch_all_triplet || type == EmbeddingLoss::batch_hard_triplet ||
         type == EmbeddingLoss::batch_hard_soft_margin_triplet || type == EmbeddingLoss::batch_semi_hard_triplet;
}
bool compares_pairs(EmbeddingLoss type) {
  return type != EmbeddingLoss::triplet && type != EmbeddingLoss::cosine_similarity && !learns_teachers(type);
}
bool has_temperature(EmbeddingLoss type) {
  return type == EmbeddingLoss::distill_kl_div || (compares_pairs(type) && !learns_labels(type));
}
bool has_margin(EmbeddingLoss type) {
  return type == EmbeddingLoss::triplet ||
         (learns_labels(type) && type != EmbeddingLoss::batch_hard_soft_margin_triplet);
}
bool is_of_others(EmbeddingLoss type) { return type == EmbeddingLoss::triplet || type == EmbeddingLoss::margin_mse; }

const char* counted_of(EmbeddingLoss type) {
  return is_of_others(type) ? "triplets" : learns_labels(type) ? "texts" : "pairs";
}

Tensor losses_of(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  switch (settings.type) {
    case EmbeddingLoss::multiple_negatives_ranking:
      return ranking_P(texts, settings, dims);
    case EmbeddingLoss::gist:
      return guided_P(texts, settings, dims);
    case EmbeddingLoss::triplet:
      return (margins_O(texts, settings, dims) + settings.margin).relu();
    case EmbeddingLoss::cosent:
      return cosent_P(texts, cosine_P(texts, dims), settings.temperature);
    case EmbeddingLoss::angle:
      return cosent_P(texts, angle_P(texts, dims), settings.temperature);
    case EmbeddingLoss::margin_mse:
      return margin_mse_O(texts, settings, dims);
    case EmbeddingLoss::distill_kl_div:
      return distill_kl_div_P(texts, settings, dims);
    case EmbeddingLoss::batch_all_triplet:
    case EmbeddingLoss::batch_hard_triplet:
    case EmbeddingLoss::batch_hard_soft_margin_triplet:
    case EmbeddingLoss::batch_semi_hard_triplet:
      return class_losses_P(texts, settings, dims);
    case EmbeddingLoss::cosine_similarity:
      break;
  }
  return (cosine_P(texts, dims) - texts.score_P).square();
}

Tensor right_ones(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings) {
  if (settings.type == EmbeddingLoss::triplet) return margins_O(texts, settings, 0).lt(0);
  if (settings.type == EmbeddingLoss::margin_mse) return right_margins_O(texts, settings);
  if (settings.type == EmbeddingLoss::distill_kl_div) return right_best_P(texts, settings);
  if (learns_labels(settings.type)) return nearest_of_class_P(texts, settings);
  return is_ranking(settings.type) ? nearest_P(texts, settings.dot) : Tensor();
}

}  // namespace hone::objectives
