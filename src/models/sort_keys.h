// The order of config.json's keys.
#pragma once

#include <algorithm>

#include "hone/config.h"

namespace hone::models {

// As transformers writes them.
inline void sort_keys(config::Node& hf_config) {
  std::ranges::sort(hf_config.entries(), {}, &config::Node::Entry::first);
}

}  // namespace hone::models
