// Lower case as a table.
#pragma once

#include <vector>

namespace hone::text {

// By code point, as far as any changes; U+0130, which becomes two characters, stays as it is.
std::vector<char32_t> make_lower_case();

}  // namespace hone::text
