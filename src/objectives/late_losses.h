// Losses of texts that are compared token by token.
//
// Letters: P pairs, O other documents.
#pragma once

#include <cstdint>

#include "nn/token_vectors.h"
#include "objectives/embedded_texts.h"

namespace hone::objectives {

struct LateLossSettings {
  EmbeddingLoss type = EmbeddingLoss::multiple_negatives_ranking;  // or margin_mse, distill_kl_div
  double temperature = 1, teacher_temperature = 1;
  nn::TokenSimilarity similarity = nn::TokenSimilarity::maxsim;
  std::int64_t width = 0;  // numbers of a token's vector
};

// Of each pair, [P], or, of margin_mse, of each other document, [O]; and whether the nearest document is the right one,
// or as the teacher has it. texts: each text's vectors in one row (nn::rows_of()).
struct LateLosses {
  Tensor loss, right;
};
LateLosses late_losses(const EmbeddedTexts& texts, const LateLossSettings& settings);

}  // namespace hone::objectives
