// Base64 of the standard alphabet, as tokenizer files hold it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hone::text {

// Nothing: not base64 (padding is wanted, blanks are not).
std::optional<std::string> from_base64(std::string_view text);

std::string to_base64(std::string_view bytes);

}  // namespace hone::text
