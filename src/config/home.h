// ~/ at the beginning of a path, which shells leave alone within --a=~/b and files have no shell for.
#pragma once

#include <optional>
#include <string>

#include "hone/config_read.h"

namespace hone::config {

// A path that begins with ~/, or one behind NAME= that does, with $HOME in its place; any other text as it is. Nothing:
// HOME is not set.
std::optional<std::string> with_home(const std::string& path);

// Puts $HOME in the place of the ~ of options whose names are those of paths: what stands below `root` in a recipe, or
// what the flags of a command gave. Texts, as prompts are, stay as they are.
void expand_home(Node& root, Problems& problems);
void expand_home_of_flags(Node& root, Problems& problems);

}  // namespace hone::config
