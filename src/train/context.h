// Ranks that compute a micro-batch together: parallel.context, parallel.tensor.
#pragma once

#include <memory>

#include "hone/recipe.h"
#include "hone/world.h"
#include "nn/context.h"
#include "nn/peers.h"

namespace hone::training {

// How many ranks they are, of so many; 1: each has micro-batches of its own. REQUIRES: check_ranks() let the recipe
// pass.
int context_of(const Recipe& recipe, int ranks);
// How many slices weights are cut into, each of which one of these ranks has; 1: they are not (parallel.tensor).
int slices_of(const Recipe& recipe, int ranks);
// Who takes the micro-batches of a step in turn: so many ranks or groups of ranks.
inline int takers_of(const Recipe& recipe, int ranks) { return ranks / context_of(recipe, ranks); }

// Of one rank: which micro-batches it has, and which tokens of these.
class ContextGroup {
 public:
  ContextGroup(const Recipe& recipe, const World& world);
  std::size_t taker() const { return taker_; }  // micro-batches taker(), taker() + takers() and so on are its
  std::size_t takers() const { return takers_; }
  bool speaks() const { return speaks_; }  // for the group, where something is counted once for a micro-batch
  // What it computes of a micro-batch on the host; all of it, where it has its own ones.
  Batch own(const Batch& whole) const;

 private:
  std::size_t taker_ = 0, takers_ = 1;
  bool speaks_ = true;
  std::shared_ptr<const nn::Peers> peers_;  // null: it has its own ones
  nn::Sharing sharing_ = nn::Sharing::tokens;
};

}  // namespace hone::training
