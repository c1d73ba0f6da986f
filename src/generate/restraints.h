// What a configuration makes of logits before a token is chosen: what it forbids, biases, and what answers repeat.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hone/generate.h"

namespace hone::generate {

// Whether a configuration changes any logits so.
bool restrains(const GenerateConfig& config);

// Adds logit_bias, takes presence_penalty and frequency_penalty, and gives logits of tokens that may not come next a
// number below all others. text: what the model has read and written
// so far, of which the last `made` tokens are the answer; ends: which tokens end it.
void restrain(std::span<float> logits, const GenerateConfig& config, std::span<const std::int32_t> text,
              std::int64_t made, std::span<const std::int32_t> ends);

}  // namespace hone::generate
