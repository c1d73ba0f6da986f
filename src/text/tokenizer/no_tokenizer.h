// What stands for a tokenizer where there is none: rows of token ids need none.
#pragma once

#include <memory>
#include <string>

#include "hone/text.h"

namespace hone::text {

// Has no tokens and no files, and shows ids as numbers; encode() throws Error(config). why: the reason that is given to
// whoever needs one after all, as "model: no tokenizer.json in this folder".
std::shared_ptr<const Tokenizer> no_tokenizer(std::string why);

// Throws Error(config) if this is no tokenizer. what: begins the message, as "train.jsonl:3: a text".
void require_tokenizer(const Tokenizer& tokenizer, const std::string& what);
bool is_none(const Tokenizer& tokenizer);

}  // namespace hone::text
