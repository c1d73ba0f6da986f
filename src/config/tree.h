// Trees of nodes, for readers that bound them.
#pragma once

#include "hone/config.h"

namespace hone::config {

// The node itself and all below it.
std::size_t values_in(const Node& node);
// Has resolve() give the tree back as it is.
void escape_references(Node& node);

}  // namespace hone::config
