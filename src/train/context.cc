// Who computes what of a micro-batch.
#include "train/context.h"

#include <algorithm>

#include "parallel/world_peers.h"

namespace hone::training {

namespace {

int number_of(std::int64_t option, int ranks) {
  return ranks == 1 ? 1 : option == -1 ? ranks : static_cast<int>(option);
}

}  // namespace

int slices_of(const Recipe& recipe, int ranks) { return number_of(recipe.parallel.tensor, ranks); }

int context_of(const Recipe& recipe, int ranks) {
  return std::max(number_of(recipe.parallel.context, ranks), slices_of(recipe, ranks));
}

ContextGroup::ContextGroup(const Recipe& recipe, const World& world) {
  const int context = context_of(recipe, world.size());
  taker_ = static_cast<std::size_t>(world.rank() / context);
  takers_ = static_cast<std::size_t>(world.size() / context);
  speaks_ = world.rank() % context == 0;
  if (context > 1) peers_ = std::make_shared<const parallel::WorldPeers>(world.among(context));
  if (slices_of(recipe, world.size()) > 1) sharing_ = nn::Sharing::weights;
}

Batch ContextGroup::own(const Batch& whole) const {
  return peers_ ? nn::own_tokens(whole, peers_, sharing_) : whole;
}

}  // namespace hone::training
