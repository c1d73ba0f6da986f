// Ranks that compute a batch together, as a group of a world's.
#pragma once

#include <utility>

#include "hone/world.h"
#include "nn/peers.h"

namespace hone::parallel {

class WorldPeers final : public nn::Peers {
 public:
  explicit WorldPeers(World group) : group_(std::move(group)) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  Tensor exchange(const Tensor& parts) const override;
  Tensor gather(const Tensor& own) const override;

 private:
  const World group_;
};

}  // namespace hone::parallel
