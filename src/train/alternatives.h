// Options that exclude each other, when a recipe is put together from layers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hone/config.h"

namespace hone::training {

// Before a layer goes on top of `root`: what it excludes gives way. Both of a pair in one layer: the recipe's checks say
// that they do not go together.
void drop_excluded(config::Node& root, const config::Node& layer);
void drop_excluded(config::Node& root, const std::vector<std::pair<std::string, std::string>>& overrides);

}  // namespace hone::training
