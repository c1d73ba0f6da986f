// Where a run computes, and what memory there is for it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "hone/recipe.h"
#include "hone/world.h"

namespace hone::training {

// What trainer.device means for this process, which may be one of several ranks. Error(config): it is not here.
at::Device device_of(const Recipe& recipe);
// Once, before any tensor: the thread that trains computes there, and ranks exchange what lies there. Of all ranks.
void settle_on_device(const Recipe& recipe, const World& world);

// Of a machine's ranks, those that share what memory_there() says: each has a device of its own.
int ranks_that_share_memory(at::Device device, int ranks_here);

// What this process may have, with what it has already: of the device, or of the machine for one that computes on it.
std::uint64_t memory_there(at::Device device);
// The most it had so far: of tensors on a device, or of all on the host.
std::uint64_t highest_memory(at::Device device);

}  // namespace hone::training
