// The files of a tokenizer as they are read, made and kept: by name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hone/error.h"
#include "io/json.h"

namespace hone::text {

using Files = std::vector<std::pair<std::string, std::string>>;  // name, content

// What a JSON file beside tokenizer.json may be.
inline constexpr io::JsonLimits kConfigFile{16'000'000, 100, ErrorKind::config};

}  // namespace hone::text
