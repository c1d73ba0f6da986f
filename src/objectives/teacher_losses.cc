// Losses of texts whose scores a teacher has given.
//
// Letters: P pairs, O other documents, C both documents of pairs and others, D numbers of a vector.
#include "objectives/teacher_losses.h"

#include <ATen/ATen.h>

#include <limits>

#include "nn/text_embedding.h"

namespace hone::objectives {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Vectors as their dot products are of them.
Tensor as_compared(const Tensor& rows, const EmbeddingLossSettings& settings, std::int64_t dims) {
  return settings.unit_length || dims > 0 ? nn::unit_rows(rows, dims) : rows;
}

Tensor student_margins_O(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const Tensor query_PD = as_compared(texts.query_PD, settings, dims);
  const Tensor own_P = (query_PD * as_compared(texts.document_PD, settings, dims)).sum(1);
  const Tensor other_O = (query_PD.index_select(0, texts.owner_O) * as_compared(texts.other_OD, settings, dims)).sum(1);
  return own_P.index_select(0, texts.owner_O) - other_O;
}

Tensor teacher_margins_O(const EmbeddedTexts& texts) {
  return texts.teacher_P.index_select(0, texts.owner_O) - texts.teacher_O;
}

// Of each query the scores of its own texts, and of all others -inf; its document first.
struct TaughtScores {
  Tensor found_PC, teacher_PC, not_own_PC;
};
TaughtScores taught_scores(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const std::int64_t pairs = texts.query_PD.size(0);
  const Tensor pair_P = at::arange(pairs, texts.owner_O.options());
  const Tensor owner_C = at::cat({pair_P, texts.owner_O});
  const Tensor not_own_PC = owner_C.unsqueeze(0).ne(pair_P.unsqueeze(1));
  const Tensor all_CD = as_compared(at::cat({texts.document_PD, texts.other_OD}), settings, dims);
  const Tensor found_PC = as_compared(texts.query_PD, settings, dims).matmul(all_CD.t());
  const Tensor teacher_C = at::cat({texts.teacher_P, texts.teacher_O});
  return {found_PC.masked_fill(not_own_PC, kNever),
          teacher_C.unsqueeze(0).expand_as(found_PC).masked_fill(not_own_PC, kNever), not_own_PC};
}

}  // namespace

Tensor margin_mse_O(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  return (student_margins_O(texts, settings, dims) - teacher_margins_O(texts)).square();
}

Tensor distill_kl_div_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims) {
  const TaughtScores scores = taught_scores(texts, settings, dims);
  const Tensor wanted_PC = (scores.teacher_PC / settings.teacher_temperature).softmax(1);
  const Tensor found_PC =
      (scores.found_PC / settings.temperature).log_softmax(1).masked_fill(scores.not_own_PC, 0);
  return settings.temperature * settings.temperature * (at::xlogy(wanted_PC, wanted_PC) - wanted_PC * found_PC).sum(1);
}

Tensor right_margins_O(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings) {
  return student_margins_O(texts, settings, 0).sign().eq(teacher_margins_O(texts).sign());
}

Tensor right_best_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings) {
  const TaughtScores scores = taught_scores(texts, settings, 0);
  return scores.found_PC.argmax(1).eq(scores.teacher_PC.argmax(1));
}

}  // namespace hone::objectives
