// Losses of texts that are compared token by token.
//
// Letters: P pairs, O other documents, C both documents of pairs and others.
#include "objectives/late_losses.h"

#include <ATen/ATen.h>

#include <limits>

#include "objectives/ranking_losses.h"

namespace hone::objectives {
namespace {

constexpr double kNoScore = -std::numeric_limits<double>::infinity();

class TokenCompared {
 public:
  TokenCompared(const EmbeddedTexts& texts, const LateLossSettings& settings) : texts_(texts), settings_(settings) {}

  // The probability of each query's own document among all documents of the step.
  LateLosses ranking() const {
    const nn::TokenVectors all = tokens(at::cat({texts_.document_PD, texts_.other_OD}));
    const Tensor found_PC = nn::max_similarity(tokens(texts_.query_PD), all, settings_.similarity)
                                .masked_fill(not_negatives_PC(texts_), kNoScore);
    const Tensor score_PC = found_PC / settings_.temperature;
    const Tensor own_P = at::arange(found_PC.size(0), texts_.owner_O.options());
    return {score_PC.logsumexp(1) - score_PC.diagonal(), found_PC.argmax(1).eq(own_P)};
  }

  // How far margins of a query's document over its others are from the teacher's (Hofstätter et al., 2020,
  // arXiv:2010.02666).
  LateLosses margins() const {
    const Tensor found_O = own_P().index_select(0, texts_.owner_O) - others_O();
    const Tensor wanted_O = texts_.teacher_P.index_select(0, texts_.owner_O) - texts_.teacher_O;
    return {(found_O - wanted_O).square(), found_O.sign().eq(wanted_O.sign())};
  }

  // How far what is likeliest of a query's own texts is from the teacher's (ColBERTv2: Santhanam et al., 2022,
  // arXiv:2112.01488).
  LateLosses likelihoods() const {
    const Tensor pair_P = at::arange(texts_.query_PD.size(0), texts_.owner_O.options());
    const Tensor not_own_PC = at::cat({pair_P, texts_.owner_O}).unsqueeze(0).ne(pair_P.unsqueeze(1));
    const auto spread = [&](const Tensor& values_C) {
      return values_C.unsqueeze(0).expand_as(not_own_PC).masked_fill(not_own_PC, kNoScore);
    };
    const Tensor found_PC = spread(at::cat({own_P(), others_O()}));
    const Tensor teacher_PC = spread(at::cat({texts_.teacher_P, texts_.teacher_O}));
    const double hot = settings_.temperature;
    const Tensor wanted_PC = (teacher_PC / settings_.teacher_temperature).softmax(1);
    const Tensor made_PC = (found_PC / hot).log_softmax(1).masked_fill(not_own_PC, 0);
    return {hot * hot * (at::xlogy(wanted_PC, wanted_PC) - wanted_PC * made_PC).sum(1),
            found_PC.argmax(1).eq(teacher_PC.argmax(1))};
  }

 private:
  nn::TokenVectors tokens(const Tensor& rows) const { return nn::trimmed(nn::texts_in(rows, settings_.width)); }
  Tensor pairwise(const Tensor& queries, const Tensor& documents) const {
    return nn::max_similarity_pairwise(tokens(queries), tokens(documents), settings_.similarity);
  }
  Tensor own_P() const { return pairwise(texts_.query_PD, texts_.document_PD); }
  Tensor others_O() const { return pairwise(texts_.query_PD.index_select(0, texts_.owner_O), texts_.other_OD); }

  const EmbeddedTexts& texts_;
  const LateLossSettings& settings_;
};

}  // namespace

LateLosses late_losses(const EmbeddedTexts& texts, const LateLossSettings& settings) {
  const TokenCompared compared(texts, settings);
  if (settings.type == EmbeddingLoss::margin_mse) return compared.margins();
  return settings.type == EmbeddingLoss::distill_kl_div ? compared.likelihoods() : compared.ranking();
}

}  // namespace hone::objectives
