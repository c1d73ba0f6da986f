// A model for more tokens than it has: its tables of one row for each token, made larger.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/model.h"
#include "hub/save.h"

namespace hone::hub {

// The model, without memory, that the same configuration describes with so many rows for tokens, and with these ids
// ("eos_token_id", 7) where its type has them. Throws Error(config): it does not say vocab_size.
using TokenIds = std::vector<std::pair<std::string, std::int32_t>>;
std::unique_ptr<Model> with_vocab_size(const Model& model, std::int64_t rows, const TokenIds& ids = {});

// The model's weights with as many rows for tokens as `larger` has, in tables and heads. Rows from `first` up to `end`
// and all that the model has not are the mean of those of tokens that it knows, [0, first), as transformers makes new
// ones: a token that nobody has seen is then neither near to one that was learnt nor unlike all. Those of tokens, up to
// `end`, also have a little noise of their own, a function of the weight's name and the row: a frozen head could never
// tell equal ones apart. REQUIRES: the model is filled; larger has at least its rows; 0 < first <= the model's rows;
// end <= those of larger.
SavedWeights with_more_rows(const Model& model, const Model& larger, std::int64_t first, std::int64_t end);

}  // namespace hone::hub
