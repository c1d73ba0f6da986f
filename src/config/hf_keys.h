// Keys of a config.json of Hugging Face's that no model's computation depends on.
#pragma once

#include <string_view>

namespace hone::config {

// They do not change what a model computes, unless its own options name them. Whoever needs one reads the file itself.
bool changes_nothing(std::string_view key);

}  // namespace hone::config
