// A run's device.
#include "train/placement.h"

#include "base/memory.h"
#include "dist/place.h"
#include "tensor/device.h"
#include "train/metrics.h"

namespace hone::training {

at::Device device_of(const Recipe& recipe) {
  const std::optional<dist::Place> place = dist::find_place();
  std::optional<devices::LocalRank> own;
  if (place) own = {place->local_rank, place->local_size};
  return devices::choose(recipe.trainer.device, "trainer.device", own);
}

void settle_on_device(const Recipe& recipe, const World& world) {
  const at::Device device = device_of(recipe);
  devices::make_current(device);
  world.compute_on(device);
}

int ranks_that_share_memory(at::Device device, int ranks_here) { return device.is_cpu() ? ranks_here : 1; }

std::uint64_t memory_there(at::Device device) {
  if (const std::optional<devices::Memory> memory = devices::memory(device)) return memory->free + memory->in_use;
  return memory_facts().left() + resident_memory();
}

std::uint64_t highest_memory(at::Device device) {
  const std::optional<devices::Memory> memory = devices::memory(device);
  return memory ? memory->peak : peak_memory_bytes();
}

}  // namespace hone::training
