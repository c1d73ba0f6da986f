// Losses of texts whose scores a teacher has given: the model is to tell them apart as it does.
#pragma once

#include <cstdint>

#include "objectives/embedded_texts.h"

namespace hone::objectives {

// How far the margins of each pair over its others are from the teacher's, squared, [O] (Hofstätter et al., 2020,
// arXiv:2010.02666). `dims`: as losses_of() says.
Tensor margin_mse_O(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);
// How far what is likeliest of a query's own texts is from the teacher's, [P] (Lin et al., 2020, arXiv:2010.11386).
Tensor distill_kl_div_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);

// Whether a margin has the teacher's sign, [O], or the best of a query's texts is the teacher's, [P].
Tensor right_margins_O(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings);
Tensor right_best_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings);

}  // namespace hone::objectives
