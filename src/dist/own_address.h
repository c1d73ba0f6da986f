// The address by which other ranks reach this one.
#pragma once

#include <string>

#include "dist/place.h"

namespace hone::dist {

// By which others reach this machine: that from which it reaches the place, or one of its own where it is the place
// itself and knows that by a loopback address, as Debian's /etc/hosts has it. "": unknown.
std::string address_for_others(const Place& place);

}  // namespace hone::dist
