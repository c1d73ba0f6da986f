// The model that an adapter was trained beside.
#pragma once

#include <filesystem>

namespace hone::training {

// Whether the model there is, byte for byte, the one that the adapter, a checkpoint of a run, was trained beside. true
// where the adapter does not say, as PEFT's do not. Reads the model's files.
bool is_own_base(const std::filesystem::path& adapter, const std::filesystem::path& model);

}  // namespace hone::training
