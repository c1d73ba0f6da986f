// Tokens that flags give, each by itself.
#pragma once

#include <string>
#include <vector>

namespace hone::cli {

// Throws Error(usage): one is empty, no UTF-8, given twice, or a list, which would be one token with brackets and
// commas in it. flag: "--special-tokens".
void check_token_flags(const std::vector<std::string>& tokens, const std::string& flag);

}  // namespace hone::cli
