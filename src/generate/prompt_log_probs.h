// How likely a model finds the tokens of given texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "generate/engine.h"

namespace hone::generate {

// Of each prompt's tokens but the first, by what stands before them, with the `count` likeliest beside each. One pass
// over all prompts; logits are made of a few rows at a time. Under no-grad.
std::vector<std::vector<TokenLogProbs>> prompt_log_probs(const CausalLm& model, const std::string& adapter,
                                                         const std::vector<std::span<const std::int32_t>>& prompts,
                                                         std::int64_t count);

}  // namespace hone::generate
