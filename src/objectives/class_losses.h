// Losses of texts with labels: those of one label are to lie nearer to each other than to all others of a step
// (Hermans et al., 2017, arXiv:1703.07737).
#pragma once

#include <cstdint>

#include "objectives/embedded_texts.h"

namespace hone::objectives {

// Of each text, [P]; of batch_all_triplet and batch_semi_hard_triplet, which are one number for all of them, that
// number. A text that has none of another label has no triplet, and a loss of 0. `dims`: as losses_of() says.
Tensor class_losses_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);

// Whether the nearest other text has the same label, [P].
Tensor nearest_of_class_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings);

}  // namespace hone::objectives
