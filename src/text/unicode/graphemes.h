// Where one user-perceived character ends and the next begins (UAX 29, extended grapheme clusters).
#pragma once

#include <cstddef>
#include <string_view>

namespace hone::text {

// The end of the cluster that begins at `at`. REQUIRES: well-formed UTF-8, at < text.size().
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace hone::text
