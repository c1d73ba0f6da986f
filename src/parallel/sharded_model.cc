// When groups come and go.
#include "parallel/sharded_model.h"

namespace hone::parallel {
namespace {

constexpr std::size_t kRoot = 0;

std::size_t unit_of(std::size_t block) { return block + 1; }

}  // namespace

ShardedModel::ShardedModel(Model& model, const Sharers& ranks, at::ScalarType type, std::optional<at::ScalarType> wide)
    : model_(model), blocks_(model.blocks().size()) {
  for (const nn::WeightGroup& group : nn::weight_groups(model, !wide))
    groups_.push_back(std::make_unique<ShardedGroup>(group, ranks.of(group), type, wide));
  model_.set_residency(this);
}

ShardedModel::~ShardedModel() { model_.set_residency(nullptr); }

void ShardedModel::begin(bool learns) {
  learns_ = learns;
  ++passes_;
  entered_ = left_ = blocks_;
  each(kRoot, [&](ShardedGroup& group) {
    group.finish_gather();
    if (learns) group.open_sums();
  });
  each(unit_of(0), [](ShardedGroup& group) { group.begin_gather(); });
}

void ShardedModel::enter(std::size_t block) {
  each(unit_of(block), [](ShardedGroup& group) { group.finish_gather(); });
  each(unit_of(block + 1), [](ShardedGroup& group) { group.begin_gather(); });
}

// The last one stays for the backward pass, which begins with it.
void ShardedModel::leave(std::size_t block) {
  if (learns_ && block + 1 == blocks_) return;
  each(unit_of(block), [](ShardedGroup& group) { group.release(); });
}

void ShardedModel::enter_backward(std::size_t block) {
  HONE_ASSERT(entered_ == block + 1);
  entered_ = block;
  each(unit_of(block), [](ShardedGroup& group) {
    group.finish_gather();
    group.open_sums();
  });
  if (block > 0) each(unit_of(block - 1), [](ShardedGroup& group) { group.begin_gather(); });
}

void ShardedModel::leave_backward(std::size_t block) {
  HONE_ASSERT(left_ == block + 1);
  left_ = block;
  each(unit_of(block + 1), [](ShardedGroup& group) { group.finish_reduce(); });
  each(unit_of(block), [](ShardedGroup& group) {
    group.release();
    group.begin_reduce();
  });
}

// Where nothing that a block has made or was given has a gradient in this rank's batch, its end or begin is not told
// of: the others are, and so it is caught up on.
void ShardedModel::end_pass() {
  while (left_ > 0) {
    const std::size_t block = left_ - 1;
    if (entered_ > block) enter_backward(block);
    leave_backward(block);
  }
  each(kRoot, [](ShardedGroup& group) { group.begin_reduce(); });
  for (const auto& group : groups_) group->finish_reduce();
}

void ShardedModel::idle_pass(bool learns) {
  begin(learns);
  for (std::size_t block = 0; block < blocks_; ++block) enter(block), leave(block);
  if (!learns) return;
  for (std::size_t block = blocks_; block-- > 0;) enter_backward(block), leave_backward(block);
  end_pass();
}

void ShardedModel::release_all() {
  for (const auto& group : groups_) group->release();
}

}  // namespace hone::parallel
