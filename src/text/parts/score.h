// Numbers of tokenizer.json to the last bit as the reference reads them.
#pragma once

#include <optional>
#include <string_view>

namespace hone::text {

// A JSON number. The reference multiplies the digits by a power of ten, which rounds twice: the neighbour of the
// nearest double decides between cuts of equal score. Nothing: no number, or not finite.
std::optional<double> read_score(std::string_view text);

}  // namespace hone::text
