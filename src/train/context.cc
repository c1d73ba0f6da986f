// Who computes what of a micro-batch.
#include "train/context.h"

#include "nn/context.h"
#include "parallel/world_peers.h"

namespace hone::training {

int context_of(const Recipe& recipe, int ranks) {
  const std::int64_t context = recipe.parallel.context;
  return ranks == 1 ? 1 : context == -1 ? ranks : static_cast<int>(context);
}

ContextGroup::ContextGroup(const Recipe& recipe, const World& world) {
  const int context = context_of(recipe, world.size());
  taker_ = static_cast<std::size_t>(world.rank() / context);
  takers_ = static_cast<std::size_t>(world.size() / context);
  speaks_ = world.rank() % context == 0;
  if (context > 1) peers_ = std::make_shared<const parallel::WorldPeers>(world.among(context));
}

Batch ContextGroup::own(const Batch& whole) const { return peers_ ? nn::own_tokens(whole, peers_) : whole; }

}  // namespace hone::training
