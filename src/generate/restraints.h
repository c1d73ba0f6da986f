// What a configuration forbids of an answer's next token, whatever is likely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hone/generate.h"

namespace hone::generate {

// Whether a configuration forbids anything.
bool restrains(const GenerateConfig& config);

// Gives logits of tokens that may not come next a number below all others. text: what the model has read and written
// so far, of which the last `made` tokens are the answer; ends: which tokens end it.
void restrain(std::span<float> logits, const GenerateConfig& config, std::span<const std::int32_t> text,
              std::int64_t made, std::span<const std::int32_t> ends);

}  // namespace hone::generate
