// Values of config.json as transformers writes them; nn::hf_float is one more.
#pragma once

#include <cstdint>
#include <string>

#include "hone/config_read.h"

namespace hone::models {

inline config::Node hf_number(std::int64_t value) { return config::Values<std::int64_t>::write(value); }
inline config::Node hf_flag(bool value) { return config::Values<bool>::write(value); }
inline config::Node hf_text(const std::string& value) { return config::Node::scalar(value, /*quoted=*/true); }

}  // namespace hone::models
