// What is planned of queries that are read with texts of other records, which prepare() draws.
#pragma once

#include <cstdint>

#include "hone/data.h"
#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

// As many pairs as it makes at most of a batch, of the longest text that is drawn; step_rows: of whose texts. Of other
// objectives the batch as it is.
HostBatch with_drawn_texts(HostBatch asked, const Needs& needs, const Recipe& recipe, std::int64_t step_rows);

// Of records of so many texts beside the query, each of so many tokens: those of a row, and of one of its pairs.
struct DrawnTokens {
  double row = 0, pair = 0;
};
DrawnTokens drawn_tokens(const DrawnTexts& drawing, const Recipe& recipe, double texts, double length);

}  // namespace hone::training
