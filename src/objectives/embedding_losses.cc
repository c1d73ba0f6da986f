// Losses of vectors of texts.
#include "objectives/embedding_losses.h"

#include <ATen/ATen.h>

#include <limits>

#include "nn/text_embedding.h"

namespace hone::objectives {
namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

// cos(query, document), of every query with every document; those that are no negatives of the query are -infinity:
// one whose text is its own document's, and the document of a query that asks the same.
Tensor cosines_PC(const EmbeddedTexts& texts, std::int64_t dims) {
  const std::int64_t pairs = texts.query_PD.size(0);
  const Tensor documents_CD = nn::unit_rows(at::cat({texts.document_PD, texts.other_OD}), dims);
  const Tensor cosine_PC = nn::unit_rows(texts.query_PD, dims).matmul(documents_CD.t());
  if (!texts.document_text_P.defined()) return cosine_PC;
  const Tensor text_C = at::cat({texts.document_text_P, texts.other_text_O});
  Tensor right_PC = text_C.unsqueeze(0).eq(texts.document_text_P.unsqueeze(1));
  const Tensor same_query_PP = texts.query_text_P.unsqueeze(0).eq(texts.query_text_P.unsqueeze(1));
  right_PC.narrow(1, 0, pairs).logical_or_(same_query_PP);
  right_PC.diagonal().fill_(false);  // its own, which is to be found
  return cosine_PC.masked_fill(right_PC, kLeast);
}

// The probability of each query's own document among all (van den Oord et al., 2018, arXiv:1807.03748; Henderson et
// al., 2017, arXiv:1705.00652).
Tensor ranking_P(const EmbeddedTexts& texts, double temperature, std::int64_t dims) {
  return -(cosines_PC(texts, dims) / temperature).log_softmax(1).diagonal();
}

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

// One number for all pairs (Huang et al., 2024, CoSENT): log(1 + sum of exp((cos_j - cos_i) / temperature)) over all
// i, j of which i is to be more alike. Each pair has it, so that their mean is it.
Tensor cosent_P(const EmbeddedTexts& texts, double temperature, std::int64_t dims) {
  const Tensor cosine = cosine_P(texts, dims) / temperature;
  const Tensor difference_PP = cosine.unsqueeze(0) - cosine.unsqueeze(1);  // [i,j]: cos_j - cos_i
  const Tensor wrong_PP = texts.score_P.unsqueeze(1).le(texts.score_P.unsqueeze(0));
  const Tensor terms = difference_PP.masked_fill(wrong_PP, kLeast).flatten();
  return at::cat({terms, at::zeros({1}, terms.options())}).logsumexp(0).expand({cosine.size(0)});
}

}  // namespace

bool compares_pairs(EmbeddingLoss type) {
  return type == EmbeddingLoss::multiple_negatives_ranking || type == EmbeddingLoss::cosent;
}

const char* counted_of(EmbeddingLoss type) { return type == EmbeddingLoss::triplet ? "triplets" : "pairs"; }

Tensor losses_of(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  switch (settings.type) {
    case EmbeddingLoss::multiple_negatives_ranking:
      return ranking_P(texts, settings.temperature, dims);
    case EmbeddingLoss::triplet:
      return (margins_O(texts, settings, dims) + settings.margin).relu();
    case EmbeddingLoss::cosent:
      return cosent_P(texts, settings.temperature, dims);
    case EmbeddingLoss::cosine_similarity:
      break;
  }
  return (cosine_P(texts, dims) - texts.score_P).square();
}

Tensor right_ones(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings) {
  if (settings.type == EmbeddingLoss::triplet) return margins_O(texts, settings, 0).lt(0);
  if (settings.type != EmbeddingLoss::multiple_negatives_ranking) return {};
  const Tensor own = at::arange(texts.query_PD.size(0), texts.query_PD.options().dtype(at::kLong));
  return cosines_PC(texts, 0).argmax(1).eq(own);
}

}  // namespace hone::objectives
