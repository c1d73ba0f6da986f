// Losses by which each query's own document is to be told from all other texts of a step.
#pragma once

#include <cstdint>

#include "objectives/embedded_texts.h"

namespace hone::objectives {

// Of each pair, [P], by losses_of()'s rules: multiple_negatives_ranking, and gist, which has a guide say what else may
// be right.
Tensor ranking_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);
Tensor guided_P(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);

// Of each query which of all pairs' documents and others (in this order, [P, P + O]) are no negatives: those of the
// same text as its own, or of a query that asks the same. Its own one is not among them.
Tensor not_negatives_PC(const EmbeddedTexts& texts);

// Whether a query's own document is the nearest of all, [P].
Tensor nearest_P(const EmbeddedTexts& texts, bool dot);

}  // namespace hone::objectives
