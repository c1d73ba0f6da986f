// A token as people see it in listings: what it is, not what it becomes at some place of a text.
#pragma once

#include <string>

#include "hone/text.h"

namespace hone::cli {

// Its text in the vocabulary, as in "▁the"; where the vocabulary spells bytes, those bytes: " the" for "Ġthe", "\xe6"
// for a part of a character; "#7" for an id without a token. Safe for a terminal.
std::string shown_token(const Tokenizer& tokenizer, std::int32_t id);

}  // namespace hone::cli
