// What this machine calls itself.
#pragma once

#include <string>

namespace hone {

std::string host_name();  // "this machine" where it does not say

}  // namespace hone
