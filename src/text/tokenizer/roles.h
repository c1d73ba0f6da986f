// What the files beside a tokenizer.json say of tokens: which are added, which begin, end and pad texts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/text.h"

namespace hone::text {

using Roles = std::vector<std::pair<std::string, std::string>>;  // "eos_token", its text; ...

// The tokenizer with these tokens in these roles: tokenizer_config.json, which is made where there is none, and
// special_tokens_map.json where there is one. REQUIRES: they are tokens of it.
std::shared_ptr<const Tokenizer> with_roles(const Tokenizer& tokenizer, const Roles& roles);

// add_tokens() for files that transformers reads, too: where tokenizer_config.json lists added tokens
// (added_tokens_decoder), transformers takes that list and not tokenizer.json's, so they are added to it.
std::shared_ptr<const Tokenizer> with_tokens(const Tokenizer& tokenizer, const std::vector<NewToken>& tokens);

}  // namespace hone::text
