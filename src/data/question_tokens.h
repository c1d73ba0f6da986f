// Questions about a text as tokens of a record, and as documents of a store.
#pragma once

#include <string>

#include "data/record_tokens.h"

namespace hone::data {

// The first window, with the others as its companions.
RecordTokens with_windows(const QuestionRecord& record, const Tokenising& how, const std::string& place);

// Windows are a group, so that they stay together where records are dealt out.
void add_windows(TokenStore& store, const RecordTokens& first, std::int64_t line);

}  // namespace hone::data
