// Losses by which each query's own document is to be told from all other texts of a step.
//
// Letters: P pairs, O other documents, C both documents of pairs and others, D numbers of a vector.
#include "objectives/ranking_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "nn/text_embedding.h"

namespace hone::objectives {
namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

// Of each pair (row) which pairs and which other documents are no negatives of it: those of the same document, those
// that ask the same, and itself.
struct Alike {
  Tensor pairs_PP, others_PO;
};
Alike alike(const EmbeddedTexts& texts) {
  const std::int64_t pairs = texts.query_PD.size(0), others = texts.other_OD.size(0);
  const auto flags = texts.query_PD.options().dtype(at::kBool);
  if (!texts.document_text_P.defined()) return {at::eye(pairs, flags), at::zeros({pairs, others}, flags)};
  const auto same = [](const Tensor& own_P, const Tensor& all) { return all.unsqueeze(0).eq(own_P.unsqueeze(1)); };
  return {same(texts.document_text_P, texts.document_text_P) | same(texts.query_text_P, texts.query_text_P),
          same(texts.document_text_P, texts.other_text_O)};
}

// Without itself.
Tensor but_itself(const Tensor& square_PP) {
  Tensor made = square_PP.clone();
  made.diagonal().fill_(false);
  return made;
}

// Which other documents are the pair's own.
Tensor owned_PO(const EmbeddedTexts& texts) {
  const Tensor pair_P = at::arange(texts.query_PD.size(0), texts.owner_O.options());
  return texts.owner_O.unsqueeze(0).eq(pair_P.unsqueeze(1));
}

// Every row of the one with every row of the other.
class Likeness {
 public:
  Likeness(bool dot, std::int64_t dims) : dot_(dot), dims_(dims) {}
  Tensor operator()(const Tensor& a_AD, const Tensor& b_BD) const { return rows(a_AD).matmul(rows(b_BD).t()); }

 private:
  Tensor rows(const Tensor& x) const { return dot_ ? x : nn::unit_rows(x, dims_); }
  bool dot_;
  std::int64_t dims_;
};

Tensor documents_CD(const EmbeddedTexts& texts) { return at::cat({texts.document_PD, texts.other_OD}); }

bool has(const EmbeddingLossSettings& settings, Direction direction) {
  return std::find(settings.directions.begin(), settings.directions.end(), direction) != settings.directions.end();
}

// What negatives have more in the denominator: their own likeness, as a number, so that hard ones weigh more (Lan et
// al., 2025, arXiv:2503.04812; Schechter Vera et al., 2025, arXiv:2509.20354).
Tensor hardness_PC(const Tensor& likeness_PC, const EmbeddedTexts& texts, const EmbeddingLossSettings& settings) {
  const Tensor own_PP = at::eye(texts.query_PD.size(0), likeness_PC.options().dtype(at::kBool));
  const Tensor owned = owned_PO(texts);
  const auto left_out = [&]() -> Tensor {
    if (settings.hardness_mode == HardnessMode::hard_negatives)
      return at::cat({at::ones_like(own_PP), owned.logical_not()}, 1);
    if (settings.hardness_mode == HardnessMode::in_batch_negatives) return at::cat({own_PP, owned}, 1);
    return at::cat({own_PP, at::zeros_like(owned)}, 1);
  };
  return (settings.hardness_strength * likeness_PC.detach()).masked_fill(left_out(), 0);
}

}  // namespace

Tensor not_negatives_PC(const EmbeddedTexts& texts) {
  const Alike same = alike(texts);
  return at::cat({but_itself(same.pairs_PP), same.others_PO}, 1);
}

// The probability of each query's own document among all (van den Oord et al., 2018, arXiv:1807.03748; Henderson et
// al., 2017, arXiv:1705.00652), and, where more directions are asked for, among all queries, and of its document among
// all queries and documents (Li et al., 2023, arXiv:2308.03281).
Tensor ranking_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const Likeness likeness(settings.dot, dims);
  const Alike same = alike(texts);
  const Tensor not_own_PC = not_negatives_PC(texts);
  const Tensor all_CD = documents_CD(texts);
  const Tensor found_PC = likeness(texts.query_PD, all_CD);
  Tensor found = found_PC / settings.temperature;
  if (settings.hardness_mode && settings.hardness_strength > 0)
    found = found + hardness_PC(found_PC, texts, settings);
  std::vector<Tensor> scores{found.masked_fill(not_own_PC, kLeast)};
  const auto add = [&](const Tensor& likeness_of, const Tensor& mask) {
    scores.push_back((likeness_of / settings.temperature).masked_fill(mask, kLeast));
  };
  if (has(settings, Direction::query_to_query)) add(likeness(texts.query_PD, texts.query_PD), same.pairs_PP);
  if (has(settings, Direction::doc_to_query))
    add(likeness(texts.document_PD, texts.query_PD), but_itself(same.pairs_PP));
  if (has(settings, Direction::doc_to_doc))
    add(likeness(texts.document_PD, all_CD), at::cat({same.pairs_PP, same.others_PO | owned_PO(texts)}, 1));
  const Tensor own_P = scores[0].diagonal();
  if (settings.partition_mode == PartitionMode::joint) return at::cat(scores, 1).logsumexp(1) - own_P;
  Tensor all_P = scores[0].logsumexp(1);
  for (std::size_t i = 1; i < scores.size(); ++i) all_P = all_P + scores[i].logsumexp(1);
  return all_P / static_cast<double>(scores.size()) - own_P;
}

// The same, with queries and documents among themselves, without those that the guide finds nearer to each other than
// the query is to its own document (Solatorio, 2024, arXiv:2402.16829).
Tensor guided_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const Likeness likeness(settings.dot, dims), by_guide(/*dot=*/false, 0);
  const Tensor own_P1 =
      (nn::unit_rows(texts.guide_query_PD) * nn::unit_rows(texts.guide_document_PD)).sum(1, /*keepdim=*/true);
  const bool is_share = settings.margin_strategy == MarginStrategy::relative;
  const Tensor border_P1 = own_P1 - settings.margin * (is_share ? own_P1.abs() : at::ones_like(own_P1));
  const Alike same = alike(texts);
  const auto kept = [&](const Tensor& scores, const Tensor& guided, const Tensor& own) {
    return scores.masked_fill(guided.gt(border_P1) | own, kLeast);
  };
  const Tensor own_PP = at::eye(texts.query_PD.size(0), same.pairs_PP.options());
  const Tensor nearer_PP = by_guide(texts.guide_query_PD, texts.guide_document_PD).gt(border_P1) & own_PP.logical_not();
  std::vector<Tensor> scores{likeness(texts.query_PD, texts.document_PD)
                                 .masked_fill(nearer_PP | but_itself(same.pairs_PP), kLeast)};
  if (settings.contrast_anchors)
    scores.push_back(kept(likeness(texts.query_PD, texts.query_PD),
                          by_guide(texts.guide_query_PD, texts.guide_query_PD), same.pairs_PP));
  if (settings.contrast_positives)
    scores.push_back(kept(likeness(texts.document_PD, texts.document_PD),
                          by_guide(texts.guide_document_PD, texts.guide_document_PD), same.pairs_PP));
  scores.push_back(kept(likeness(texts.query_PD, texts.other_OD), by_guide(texts.guide_query_PD, texts.guide_other_OD),
                        same.others_PO));
  const Tensor all = at::cat(scores, 1) / settings.temperature;
  return all.logsumexp(1) - all.diagonal();
}

Tensor nearest_P(const EmbeddedTexts& texts, bool dot) {
  const Tensor found_PC = Likeness(dot, 0)(texts.query_PD, documents_CD(texts));
  const Tensor own = at::arange(texts.query_PD.size(0), texts.owner_O.options());
  return found_PC.masked_fill(not_negatives_PC(texts), kLeast).argmax(1).eq(own);
}

}  // namespace hone::objectives
