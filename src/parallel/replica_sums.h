// Gradient sums of a model that each rank has whole, added over ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hone/gradient_sum.h"
#include "hone/model.h"
#include "hone/world.h"

namespace hone::parallel {

// What of a unit (nn/weight_groups.h) lies in one piece: `piece`, of a multiple of the ranks' number of elements.
struct ReplicaGroup {
  std::size_t unit = 0;
  Tensor piece;
  std::vector<std::pair<Weight*, GradientSum*>> sums;
};

// The model's Residency while it lives. In a step's last pass a block's sums are on their way as soon as its backward
// pass is done, those of the block above become the whole's meanwhile; the others follow in finish(). On all ranks in
// the same order, whatever passes each of them has, and in rank order.
class ReplicaSums final : public Residency {
 public:
  // Groups in any order; those of the root are added last.
  ReplicaSums(Model& model, const World& world, std::vector<ReplicaGroup> groups);
  ~ReplicaSums() override;

  void expect_last_pass();  // of this rank in this step
  void finish();            // after it: each sum is that of all ranks; full where any of them had one

  void begin(bool learns) override;
  void enter(std::size_t) override {}
  void leave(std::size_t) override {}
  void enter_backward(std::size_t) override {}
  void leave_backward(std::size_t block) override;
  void idle_pass(bool) override {}

 private:
  struct InFlight {
    std::unique_ptr<Begun> begun;
    Tensor share;
    ReplicaGroup* group = nullptr;
  };
  void send(std::size_t unit);  // begins its sums, after those of the unit before have become the whole's
  void gather();
  Model& model_;
  const World world_;
  std::vector<ReplicaGroup> groups_;
  const std::size_t blocks_;
  bool overlaps_ = true;    // no weight belongs to two blocks
  bool last_ = false;       // pass
  std::int64_t forwards_ = 0;  // with a graph, in the last pass: the sums of two are not done after the first one
  std::size_t left_ = 0;       // units that were not sent yet: blocks from the last one down, then the root
  std::vector<InFlight> summing_, gathering_;
  std::vector<bool> own_;  // whether this rank has some of each weight, in the order in which they were sent
};

}  // namespace hone::parallel
