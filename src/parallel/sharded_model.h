// A model of which each rank keeps a share: its groups come and go around the blocks that need them.
#pragma once

#include <memory>
#include <vector>

#include "parallel/sharded_group.h"

namespace hone::parallel {

// The model's Residency while it lives. The next group is on its way while one is computed with; gradients of a block
// are on theirs while the one below it is computed.
class ShardedModel final : public Residency {
 public:
  ShardedModel(Model& model, const World& world, at::ScalarType type, at::ScalarType wide);
  ~ShardedModel() override;

  void begin(bool learns) override;
  void enter(std::size_t block) override;
  void leave(std::size_t block) override;
  void enter_backward(std::size_t block) override;
  void leave_backward(std::size_t block) override;
  void idle_pass(bool learns) override;
  void end_pass();         // of training: every gradient is summed when it returns
  void weights_changed();  // what is there is out of date

  std::vector<std::unique_ptr<ShardedGroup>>& groups() { return groups_; }

 private:
  template <class Act>
  void each(std::size_t unit, const Act& act) {
    for (const auto& group : groups_)
      if (group->unit() == unit) act(*group);
  }
  Model& model_;
  std::size_t blocks_;
  std::vector<std::unique_ptr<ShardedGroup>> groups_;
  bool learns_ = false;
  std::size_t entered_ = 0, left_ = 0;  // of the backward pass: the lowest block so far
};

}  // namespace hone::parallel
