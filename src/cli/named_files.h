// --data of commands that measure: files, each with the name of its set.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::cli {

// Throws Error(usage) where two sets have one name: each set's numbers stand below its name.
void require_names_apart(const std::vector<std::pair<std::string, std::string>>& sets);  // name, file

}  // namespace hone::cli
