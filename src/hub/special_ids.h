// The ids that begin and end a text, in the files of a model that was trained with another tokenizer's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/text.h"

namespace hone::hub {

// Adds a token at which generation stops to eos_token_id of generation_config.json, which is an id, a list of ids, or
// absent: then those of config.json count as well. False: it was there.
bool add_end(config::Node& generation_config, const config::Node& hf_config, std::int32_t end);

// Sets the ids of both files to the tokenizer's, as transformers' Trainer does before it trains: whoever reads them
// stops at the token that the model learns to end with. An id that the tokenizer lacks, or for which the model has no
// row, changes nothing. Ends of generation_config.json, and a list of them in config.json, stay behind the tokenizer's.
// pad_token_id of config.json stays: it would take that token's row out of the gradient when training goes on.
// Returns what has changed: "eos_token_id 257 (was 2)".
std::vector<std::string> align_ids(config::Node& hf_config, config::Node& generation_config,
                                   const Tokenizer& tokenizer);

// Of a decoder's classification head, whose document transformers takes to end before padding: where config.json has no
// pad_token_id it gets the tokenizer's, unless texts end with that, too. Returns as align_ids().
std::vector<std::string> name_padding(config::Node& hf_config, const Tokenizer& tokenizer);

}  // namespace hone::hub
