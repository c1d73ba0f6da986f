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
  // wide: none where the model does not learn; then all of its weights are shared out.
  ShardedModel(Model& model, const Sharers& ranks, at::ScalarType type, std::optional<at::ScalarType> wide);
  ~ShardedModel() override;

  void begin(bool learns) override;
  void enter(std::size_t block) override;
  void leave(std::size_t block) override;
  void enter_backward(std::size_t block) override;
  void leave_backward(std::size_t block) override;
  void idle_pass(bool learns) override;
  void end_pass();         // of training: every gradient is summed when it returns
  void release_all();      // what is there is out of date, or not needed for some time

  std::int64_t passes() const { return passes_; }  // begun so far

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
  std::int64_t passes_ = 0;
  std::size_t entered_ = 0, left_ = 0;  // of the backward pass: the lowest block so far
};

}  // namespace hone::parallel
