// What a fresh model's config.json takes from its tokenizer.
#pragma once

#include "hone/config.h"
#include "hone/text.h"

namespace hone::hub {

// Fills in what config.json does not say: vocab_size, and the ids that begin, end and pad a text. An id that the
// tokenizer does not have, or for which the model has no row, is null: transformers takes an absent one for 1 or 2.
// tokenizer: null if there is none.
void add_tokenizer_keys(config::Node& hf_config, const Tokenizer* tokenizer);

}  // namespace hone::hub
