// GGUF files that are given where a model is read: hone writes them and reads none.
#pragma once

#include <filesystem>

#include "hone/error.h"

namespace hone::io {

bool is_gguf(const std::filesystem::path& path);  // a file that begins as they do
Error a_gguf(const std::filesystem::path& path);  // Error(checkpoint): that it is one

}  // namespace hone::io
