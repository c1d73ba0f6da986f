// Token ids that config.json and generation_config.json name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::nn {

// The ids at `key` of a file: one, for eos_token_id also a list of them; null is none. What is not an id of the model,
// 0 to vocab_size - 1, is a problem.
std::vector<std::int32_t> read_token_ids(const config::Node& node, const std::string& key, std::int64_t vocab_size,
                                         Problems& problems);

// Of a whole file: bos_token_id, eos_token_id and pad_token_id, where it has them.
void check_token_ids(const config::Node& file, std::int64_t vocab_size, Problems& problems);

}  // namespace hone::nn
