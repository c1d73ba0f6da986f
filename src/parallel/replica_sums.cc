// When sums of replicas are exchanged.
#include "parallel/replica_sums.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <set>

#include "dist/any_of_ranks.h"
#include "nn/take_gradient.h"

namespace hone::parallel {
namespace {

bool any_in_two_blocks(const Model& model) {
  std::set<const Weight*> seen;
  bool twice = false;
  for (const Block* block : model.blocks())
    block->each_weight([&](const std::string&, const Weight& weight) { twice |= !seen.insert(&weight).second; });
  return twice;
}

}  // namespace

ReplicaSums::ReplicaSums(Model& model, const World& world, std::vector<ReplicaGroup> groups)
    : model_(model),
      world_(world),
      groups_(std::move(groups)),
      blocks_(model.blocks().size()),
      overlaps_(!any_in_two_blocks(model)),
      left_(blocks_ + 1) {
  model_.set_residency(this);
}

ReplicaSums::~ReplicaSums() { model_.set_residency(nullptr); }

void ReplicaSums::expect_last_pass() { last_ = overlaps_, forwards_ = 0; }

void ReplicaSums::begin(bool learns) { forwards_ += learns ? 1 : 0; }

// Units are numbered from the root, 0; block b is unit b + 1.
void ReplicaSums::leave_backward(std::size_t block) {
  if (last_ && forwards_ == 1 && left_ == block + 2) send(block + 1);
}

void ReplicaSums::send(std::size_t unit) {
  const c10::NoGradGuard no_grad;
  gather();
  left_ = unit;
  for (ReplicaGroup& group : groups_) {
    if (group.unit != unit) continue;
    for (const auto& [weight, sum] : group.sums) {
      nn::take_gradient(*weight, *sum);
      own_.push_back(sum->full());
      if (!sum->full()) sum->sum.zero_();
    }
    InFlight sent{nullptr, at::empty({group.piece.numel() / world_.size()}, group.piece.options()), &group};
    sent.begun = world_.begin_sum(group.piece, sent.share);
    summing_.push_back(std::move(sent));
  }
}

void ReplicaSums::gather() {
  for (InFlight& one : summing_) {
    one.begun->wait();
    one.begun = world_.begin_gather(one.share, one.group->piece);
    gathering_.push_back(std::move(one));
  }
  summing_.clear();
}

void ReplicaSums::finish() {
  const c10::NoGradGuard no_grad;
  last_ = false;
  std::vector<GradientSum*> sent;
  while (left_ > 0) send(left_ - 1);
  gather();
  for (InFlight& one : gathering_) {
    one.begun->wait();
    for (const auto& [weight, sum] : one.group->sums) sent.push_back(sum);
  }
  gathering_.clear();
  const std::vector<bool> any = dist::any_of_ranks(world_, own_);
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (any[i]) sent[i]->fill();
  own_.clear();
  left_ = blocks_ + 1;
}

}  // namespace hone::parallel
