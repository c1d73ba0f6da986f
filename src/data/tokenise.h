// Record -> Tokens: which ids a record becomes and which of them are learnt.
#pragma once

#include <functional>

#include "data/token_store.h"
#include "hone/data.h"

namespace hone::data {

// text: the tokenizer's special tokens, the text, eos; all learnt. prompt + completion: each tokenised by itself
// (special tokens before the prompt only), then eos; the completion and the eos are learnt, by position. input_ids: as
// they are, labels (default: the ids) say what is learnt. eos is added when append_eos, the tokenizer has one and it is
// not the last already. No ids at all: the record is empty. Throws Error(data) with the place.
Tokens to_tokens(const Record& record, const Tokenizer& tokenizer, bool append_eos, const std::string& path);

// All records of a file, tokenised on several threads, in the file's order.
std::shared_ptr<const TokenStore> tokenise_file(const DataFile& file, const Tokenizer& tokenizer, bool append_eos);

// The same, handed out one by one; for `hone tokenize`.
void each_tokens(const DataFile& file, const Tokenizer& tokenizer, bool append_eos,
                 const std::function<void(const Tokens& tokens, const Record& record)>& visit);

}  // namespace hone::data
