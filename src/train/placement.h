// Where a run computes, and what memory there is for it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "hone/recipe.h"

namespace hone::training {

// What trainer.device means for this process, which may be one of several ranks. Error(config): it is not here.
at::Device device_of(const Recipe& recipe);

// What this process may have, with what it has already: of the device, or of the machine for one that computes on it.
std::uint64_t memory_there(at::Device device);
// The most it had so far: of tensors on a device, or of all on the host.
std::uint64_t highest_memory(at::Device device);

}  // namespace hone::training
