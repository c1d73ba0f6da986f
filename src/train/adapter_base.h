// The model that an adapter was trained beside.
#pragma once

#include <filesystem>
#include <string>

namespace hone::training {

// "" where the model there is, byte for byte, the one that the adapter, a checkpoint of a run, was trained beside, or
// the adapter does not say, as PEFT's do not; else what is wrong. Reads the model's files.
std::string changed_base(const std::filesystem::path& adapter, const std::filesystem::path& model);

}  // namespace hone::training
