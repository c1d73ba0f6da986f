// Texts from outside that go where only UTF-8 may: chat templates, JSON, YAML.
#pragma once

#include <string>
#include <string_view>

#include "hone/error.h"

namespace hone::cli {

// Error(kind), which begins with `what`, and names the first byte that is none of UTF-8.
void require_utf8(std::string_view text, const std::string& what, ErrorKind kind);

}  // namespace hone::cli
