// Weights of a group in one piece, of which each rank keeps an equal share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hone/gradient_sum.h"
#include "hone/world.h"
#include "nn/weight_groups.h"

namespace hone::parallel {

// What of a weight lies in this rank's share: `count` (or none) of its elements, one row behind another, from `begin`
// on; in the share from `at` on.
struct Part {
  Weight* weight = nullptr;
  std::int64_t begin = 0, count = 0, at = 0;
  std::int64_t offset = 0;  // of the whole weight in the whole group
};  // of a slice (nn::WeightGroup::sliced) all of it are the slice's elements

// The cut is a function of the group and of the number of ranks alone.
struct Cut {
  std::int64_t share = 0;  // elements; the same on each rank
  std::vector<Part> parts;
};
Cut cut(const nn::WeightGroup& group, int rank, int ranks);

// Among whom a weight is shared out: all ranks, or, of a slice of it, those that have the same one (parallel.tensor).
struct Sharers {
  World all, alike;
  Sharers(World world) : all(world), alike(std::move(world)) {}  // NOLINT: without slices all are alike
  // Slices of a weight: of groups of so many ranks each has one; 1: there are none.
  Sharers(const World& world, int slices) : all(world), alike(world.across(slices)) {}
  const World& of(const nn::WeightGroup& group) const { return group.sliced ? alike : all; }
};

// Has every trained weight of a model, which is not filled yet, filled with this rank's part alone; or, of one that is
// not to learn, every weight.
void share_out(Model& model, const Sharers& ranks, bool learns = true);

// Of a model that learns, or of one that is only computed with. Between begin_gather() and release() its weights may be
// computed with, between open_sums() and begin_reduce() backward passes add to their gradient sums. All of it in the
// same order on all ranks.
class ShardedGroup {
 public:
  // The weights are filled, whole or in part, and are from now on whole without memory. `type`: in which they are
  // computed with; `wide`: of masters and gradient sums; none: it does not learn, and has none.
  ShardedGroup(const nn::WeightGroup& group, const World& world, at::ScalarType type,
               std::optional<at::ScalarType> wide);
  ~ShardedGroup();
  ShardedGroup(const ShardedGroup&) = delete;

  std::size_t unit() const { return unit_; }
  std::int64_t share_size() const { return cut_.share; }
  const std::vector<Part>& parts() const { return cut_.parts; }
  // Of part i: the weight's elements in the type that is computed in, its master (the same tensor where the types are
  // one), and the sum of its gradients over ranks and passes since clear_sums().
  Tensor computed(std::size_t i) const { return of(share_, i); }
  Tensor master(std::size_t i) const { return of(masters_, i); }
  Tensor gradient(std::size_t i) const { return of(sums_, i); }
  bool any_gradient(std::size_t i) const { return any_[i]; }  // of this rank's passes

  void begin_gather();   // unless the weights are there or on their way
  void finish_gather();  // begins it where that was not done
  void release();
  void open_sums();
  bool sums_are_open() const { return buffer_.defined() && !reducing_; }
  void begin_reduce();   // with what autograd has kept of this pass
  void finish_reduce();  // where it was begun
  void clear_sums();

 private:
  Tensor of(const Tensor& share, std::size_t i) const { return share.narrow(0, cut_.parts[i].at, cut_.parts[i].count); }
  void take_values(const nn::WeightGroup& group);
  bool is_alone() const { return world_.size() == 1; }  // with a slice that no other rank has: it stays where it is
  World world_;
  std::size_t unit_;
  Cut cut_;
  Tensor whole_, share_, masters_, sums_;
  Tensor buffer_, summed_;  // gradient sums of a pass, of all weights; what ranks make of them
  std::vector<GradientSum> lent_;
  std::vector<bool> any_;
  bool first_ = true;  // nothing has been added to sums_ yet
  std::unique_ptr<Begun> gathering_, reducing_;
};

}  // namespace hone::parallel
