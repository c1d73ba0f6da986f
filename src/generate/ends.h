// Which tokens end an answer.
#pragma once

#include <cstdint>
#include <vector>

#include "hone/text.h"

namespace hone::generate {

// The tokenizer's end of sequence, and what ends the assistant's turns in its chat template. Empty: there is neither,
// or the template cannot be read.
std::vector<std::int32_t> ends_of_answers(const Tokenizer& tokenizer);

}  // namespace hone::generate
