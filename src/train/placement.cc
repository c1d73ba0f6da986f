// A run's device.
#include "train/placement.h"

#include "base/memory.h"
#include "dist/place.h"
#include "tensor/device.h"
#include "train/metrics.h"

namespace hone::training {

at::Device device_of(const Recipe& recipe) {
  const std::optional<dist::Place> place = dist::find_place();
  return devices::choose(recipe.trainer.device, "trainer.device", place ? place->local_rank : 0);
}

std::uint64_t memory_there(at::Device device) {
  if (const std::optional<devices::Memory> memory = devices::memory(device)) return memory->free + memory->in_use;
  return memory_facts().left() + resident_memory();
}

std::uint64_t highest_memory(at::Device device) {
  const std::optional<devices::Memory> memory = devices::memory(device);
  return memory ? memory->peak : peak_memory_bytes();
}

}  // namespace hone::training
