// The prompt of two texts that both begin with it.
#pragma once

#include <cstddef>
#include <string_view>

#include "data/place.h"

namespace hone::data {

// How many bytes of both texts are the prompt. Of transcripts as in Anthropic's HH-RLHF ("\n\nHuman: ...\n\nAssistant:
// ..."): up to and with the last "\n\nAssistant:" that they share. Of others: what both begin with, up to a blank, so
// that no word is cut. Throws Error(data) where an answer would be empty, and where a transcript goes on behind the
// answer.
std::size_t shared_prompt(std::string_view chosen, std::string_view rejected, const Place& place);

}  // namespace hone::data
