// The files of a tokenizer as they are read, made and kept: by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::text {

using Files = std::vector<std::pair<std::string, std::string>>;  // name, content

}  // namespace hone::text
