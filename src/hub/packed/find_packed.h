// All packed weights of a folder, whatever their form.
#pragma once

#include <filesystem>

#include "hub/packed/packed.h"

namespace hone::hub {

// `tensors`: the folder's, by the names that its files give them. Error(checkpoint): a part is missing, or not as it
// should be. Error(config): config.json says of them what hone does not read.
PackedWeights find_packed(const Places& tensors, const std::filesystem::path& folder);
bool holds_packed(const std::filesystem::path& folder);

}  // namespace hone::hub
