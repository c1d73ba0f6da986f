// Weights of what is no model and has a folder of its own.
#pragma once

#include <cstdint>
#include <filesystem>

#include "hone/hub.h"

namespace hone::hub {

// Fills every weight from the folder's safetensors, strictly by name and cast to its type, as load_weights() does for
// models.
void load_module(Module& module, const std::filesystem::path& folder, WeightTypes types);
// Fills every weight by its Init, as init_weights() does for models.
void init_module(Module& module, std::uint64_t seed, WeightTypes types);

}  // namespace hone::hub
