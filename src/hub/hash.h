// What a model or an adapter is, to tell whether it is still the same one.
#pragma once

#include <filesystem>
#include <string>

namespace hone::hub {

// Of config.json or adapter_config.json and the weights' files, byte for byte: 32 digits.
std::string hash_of_folder(const std::filesystem::path& folder);

}  // namespace hone::hub
