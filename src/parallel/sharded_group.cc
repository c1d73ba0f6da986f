// One group's share, and the memory of its whole.
#include "parallel/sharded_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "nn/take_gradient.h"
#include "tensor/storage.h"

namespace hone::parallel {
namespace {

constexpr std::int64_t kUnit = 16;  // elements: 64 bytes at least, as kernels like it

std::int64_t rounded_up(std::int64_t count) { return (count + kUnit - 1) / kUnit * kUnit; }

// That lies in the storage of `all` from an element on, with a version of its own: what gathers into `all` does not
// disturb a graph that has saved it.
Tensor view_of(const Tensor& all, std::int64_t offset, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  Tensor view = at::empty({0}, all.options());
  view.set_(all.storage(), offset, shape, strides);
  return view;
}

}  // namespace

Cut cut(const nn::WeightGroup& group, int rank, int ranks) {
  std::int64_t total = 0;
  for (const nn::GroupedWeight& one : group.weights) total += rounded_up(one.weight->layout().numel());
  Cut made;
  made.share = rounded_up((total + ranks - 1) / ranks);
  const std::int64_t low = rank * made.share, high = low + made.share;
  std::int64_t offset = 0;
  for (const nn::GroupedWeight& one : group.weights) {
    const std::int64_t end = offset + one.weight->layout().numel();
    const std::int64_t from = std::clamp(low, offset, end), to = std::clamp(high, offset, end);
    made.parts.push_back({one.weight, from - offset, to - from, to > from ? from - low : 0, offset});
    offset += rounded_up(one.weight->layout().numel());
  }
  return made;
}

void share_out(Model& model, const Sharers& ranks, bool learns) {
  for (const nn::WeightGroup& group : nn::weight_groups(model, !learns))
    for (const Part& part : cut(group, ranks.of(group).rank(), ranks.of(group).size()).parts) {
      Layout layout = part.weight->layout();
      layout.begin = part.begin, layout.count = part.count;
      part.weight->set_layout(std::move(layout));
    }
}

ShardedGroup::ShardedGroup(const nn::WeightGroup& group, const World& world, at::ScalarType type,
                           std::optional<at::ScalarType> wide)
    : world_(world),
      unit_(group.unit),
      cut_(cut(group, world.rank(), world.size())),
      lent_(wide ? group.weights.size() : 0) {
  const at::NoGradGuard no_grad;
  const auto options = group.weights[0].weight->use().options().requires_grad(false);
  any_.assign(group.weights.size(), false);
  masters_ = at::zeros({cut_.share}, options.dtype(wide.value_or(type)));
  share_ = type == wide.value_or(type) ? masters_ : at::zeros({cut_.share}, options.dtype(type));
  if (wide) sums_ = at::zeros({cut_.share}, options.dtype(*wide));
  whole_ = is_alone() ? share_ : at::empty({cut_.share * world.size()}, options.dtype(type));
  take_values(group);
  release();
}

void ShardedGroup::take_values(const nn::WeightGroup& group) {
  for (std::size_t i = 0; i < group.weights.size(); ++i) {
    const Part& part = cut_.parts[i];
    Weight& weight = *part.weight;
    const Tensor value = weight.use().detach();
    const bool whole = weight.layout().count < 0;
    HONE_ASSERT(whole || (weight.layout().begin == part.begin && weight.layout().count == part.count));
    master(i).copy_(whole ? value.flatten().narrow(0, part.begin, part.count) : value);
    if (!share_.is_same(masters_)) computed(i).copy_(master(i));
    weight.fill_whole(view_of(whole_, part.offset, weight.layout().shape));
    if (!lent_.empty()) weight.set_gradient_sum(&lent_[i]);
  }
}

ShardedGroup::~ShardedGroup() {
  for (const Part& part : cut_.parts) part.weight->set_gradient_sum(nullptr);
}

void ShardedGroup::begin_gather() {
  if (is_alone() || gathering_ || storage::is_there(whole_)) return;
  storage::restore(whole_);
  gathering_ = world_.begin_gather(share_, whole_);
}

void ShardedGroup::finish_gather() {
  begin_gather();
  if (!gathering_) return;
  gathering_->wait();
  gathering_.reset();
}

void ShardedGroup::release() {
  if (gathering_) finish_gather();
  if (!is_alone()) storage::release(whole_);
}

void ShardedGroup::open_sums() {
  buffer_ = at::empty({cut_.share * world_.size()}, sums_.options());
  for (std::size_t i = 0; i < lent_.size(); ++i) {
    const Part& part = cut_.parts[i];
    const Layout& layout = part.weight->layout();
    lent_[i].sum = buffer_.narrow(0, part.offset, layout.numel()).view(layout.shape);
    lent_[i].state = GradientSum::State::empty;
  }
}

void ShardedGroup::begin_reduce() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < lent_.size(); ++i) {
    GradientSum& lent = lent_[i];
    Weight& weight = *cut_.parts[i].weight;
    nn::take_gradient(weight, lent);
    any_[i] = any_[i] || lent.full();
    if (!lent.full()) lent.sum.zero_();
    lent = GradientSum();
  }
  summed_ = first_ ? sums_ : at::empty_like(sums_);
  reducing_ = world_.begin_sum(buffer_, summed_);
}

void ShardedGroup::finish_reduce() {
  if (!reducing_) return;
  const at::NoGradGuard no_grad;
  reducing_->wait();
  reducing_.reset();
  if (!first_) sums_.add_(summed_);
  first_ = false;
  buffer_ = Tensor(), summed_ = Tensor();
}

void ShardedGroup::clear_sums() {
  first_ = true;
  any_.assign(any_.size(), false);
}

}  // namespace hone::parallel
