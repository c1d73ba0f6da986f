// Regular expressions in recipes: ECMAScript's, as std::regex reads them.
#pragma once

#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::config {

// Those that are none are problems at `path`.
void check_patterns(const std::vector<std::string>& patterns, const std::string& path, Problems& problems);

}  // namespace hone::config
