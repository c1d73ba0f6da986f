// Tokens whose rows of a table are trained, and those that nothing can tell apart.
#pragma once

#include <string>
#include <vector>

#include "hone/adapter.h"
#include "hone/data.h"

namespace hone::training {

// With the numbers of tokens instead of their texts. Throws Error(config): the tokenizer has no such token.
LoraConfig with_token_numbers(LoraConfig config, const Tokenizer& tokenizer);

// One warning for each cause: tokens that the data teach, whose rows of a head that is not trained are those of other
// tokens bit for bit, so that they can never be likelier than these. adapted: the model has an adapter, or is to have
// one. REQUIRES: the model has its weights.
std::vector<std::string> tokens_with_equal_rows(const Model& model, const Tokenizer& tokenizer, const Dataset& data,
                                                bool adapted);

}  // namespace hone::training
