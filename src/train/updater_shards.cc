// What an updater does of which each rank has a share.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/strings.h"
#include "optim/state_names.h"
#include "train/updater.h"

namespace hone::training {
void Updater::shard(Model& model, at::ScalarType type, at::ScalarType wide) {
  if (!optimizer_.is_elementwise())
    throw Error(ErrorKind::config, fmt::format("{}: the optimizer needs whole weights, which no rank has",
                                               slices_ > 1 ? "parallel.tensor" : "parallel.fsdp"))
        .hint("leave it out");
  model.each_with_adapters([&](const std::string&, Weight& weight) {  // others become so with their group
    const Tensor loaded = weight.use().detach();
    const bool stays = weight.is_buffer() || weight.trainable() || loaded.scalar_type() == type;
    if (!stays) weight.fill(loaded.to(type));
  });
  const std::vector<nn::WeightGroup> groups = nn::weight_groups(model);
  sharded_ = std::make_unique<parallel::ShardedModel>(model, parallel::Sharers(world_, slices_), type, wide);
  std::vector<std::size_t> sizes;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    parallel::ShardedGroup& group = *sharded_->groups()[g];
    const std::size_t before = weights_.size();
    names_.emplace_back();
    any_.emplace_back(group.parts().size());
    for (std::size_t i = 0; i < group.parts().size(); ++i) {
      const nn::GroupedWeight& one = groups[g].weights[i];
      names_.back().push_back(one.name);
      if (group.parts()[i].count == 0) continue;
      by_name_[one.name] = weights_.size();
      weights_.push_back({one.name,
                          one.weight,
                          group.master(i),
                          {},
                          mixed_ ? group.computed(i) : Tensor(),
                          one.weight->decays(),
                          weights_.size()});
      places_.emplace_back(g, i);
    }
    sizes.push_back(weights_.size() - before);
  }
  std::span<OptimizedWeight> left(weights_);
  for (const std::size_t size : sizes) {
    if (size > 0) groups_.push_back(left.first(size));
    left = left.subspan(size);
  }
}

// "exp_avg." of "exp_avg.model.norm.weight", the same of each weight.
void Updater::find_kinds() {
  std::vector<std::string> own;
  optimizer_.each_state([&](const std::string& name, Tensor& tensor) {
    const auto found = by_name_.find(optim::weight_of(name, by_name_));
    const OptimizedWeight* weight = found == by_name_.end() ? nullptr : &weights_[found->second];
    if (!weight || tensor.sizes() != weight->master.sizes() || tensor.scalar_type() != weight->master.scalar_type())
      throw Error(ErrorKind::config,
                  fmt::format("optimizer: its state {} is not one tensor of a weight's shape and type, "
                              "and cannot be shared out among ranks",
                              name))
          .hint("leave parallel.fsdp and parallel.tensor out");
    const std::string kind = name.substr(0, name.size() - weight->name.size());
    if (std::find(own.begin(), own.end(), kind) == own.end()) own.push_back(kind);
    states_[name] = tensor;
  });
  for (const std::string& one : world_.gather(join(own, "\n")))
    if (kinds_.empty() && !one.empty()) kinds_ = split(one, '\n');
}

namespace {

// Where in the whole weight a part of this process' slice is.
Slice placed(Slice part, const Layout& layout) {
  const std::vector<std::int64_t>& own = layout.shape;
  if (own == layout.global_shape) return part;
  const bool rows = own.size() < 2 || own[1] == layout.global_shape[1];
  HONE_ASSERT(rows || (own.size() == 2 && own[0] == layout.global_shape[0]));
  if (rows)
    part.begin += layout.offset[0] * (layout.numel() / std::max<std::int64_t>(own[0], 1));
  else
    part.columns = {layout.offset[1], own[1]};
  return part;
}

}  // namespace

Tensor Updater::slice_of(const std::string& kind, std::size_t group, std::size_t part) {
  if (sharded_->groups()[group]->parts()[part].count == 0) return {};
  const std::string& name = names_[group][part];
  return kind == kMasters ? weights_[by_name_.at(name)].master : states_.at(kind + name);
}

void Updater::each_slice(const std::vector<std::string>& kinds, const std::function<void(Slice&)>& visit) {
  for (std::size_t g = 0; g < names_.size(); ++g)
    for (std::size_t i = 0; i < names_[g].size(); ++i)
      for (const std::string& kind : kinds) {
        const parallel::Part& part = sharded_->groups()[g]->parts()[i];
        Slice slice = placed({kind + names_[g][i], part.weight->shape(), part.begin, slice_of(kind, g, i)},
                             part.weight->layout());
        if (!slice.part.defined()) slice.part = at::empty({0}, sharded_->groups()[g]->master(i).options());
        visit(slice);
      }
}

// Of all but one rank the bits of an element are zero, and so their sum is that one's.
Tensor Updater::whole(const Slice& master) {
  if (!sharded_) return master.part;
  const at::NoGradGuard no_grad;
  const Tensor made = at::zeros(master.shape, master.part.options());
  const Slice own = in_rows(master);
  made.view(-1).narrow(0, own.begin, own.part.numel()).copy_(own.part);
  Tensor bits = made.view(made.scalar_type() == at::kDouble ? at::kLong : at::kInt);
  world_.add_up(bits);
  return made;
}

namespace {

// The bits of an element, of which all ranks but one have zeros.
Tensor bits_of(const Tensor& x) {
  constexpr std::array types{at::kByte, at::kShort, at::kInt, at::kLong};  // of 1, 2, 4 and 8 bytes
  return x.view(types.at(static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(x.element_size())))));
}

// The rows that a rank of so many writes.
struct Rows {
  std::int64_t begin = 0, end = 0;
  Rows(std::int64_t all, std::int64_t rank, std::int64_t ranks)
      : begin(all * rank / ranks), end(all * (rank + 1) / ranks) {}
  std::int64_t count() const { return end - begin; }
};

}  // namespace

// Those that have the same slice put it together, then each rank of a group is sent some rows by the others.
Slice Updater::in_rows(const Slice& slice) {
  if (slice.columns.count < 0) return slice;
  const at::NoGradGuard no_grad;
  const World alike = world_.across(slices_), group = world_.among(slices_);
  const std::int64_t rows = slice.shape[0], width = slice.shape[1], most = (width + slices_ - 1) / slices_;
  Tensor own = at::zeros({rows, slice.columns.count}, slice.part.options());
  own.view(-1).narrow(0, slice.begin, slice.part.numel()).copy_(slice.part);
  if (alike.size() > 1) {
    Tensor bits = bits_of(own);
    alike.add_up(bits);
  }
  const std::int64_t most_rows = (rows + slices_ - 1) / slices_;
  const Tensor sent = at::zeros({slices_, most_rows, most}, own.options()), got = at::empty_like(sent);
  for (std::int64_t r = 0; r < slices_; ++r) {
    const Rows its(rows, r, slices_);
    sent[r].narrow(0, 0, its.count()).narrow(1, 0, own.size(1)).copy_(own.narrow(0, its.begin, its.count()));
  }
  group.begin_all_to_all(sent.view(-1), got.view(-1))->wait();
  const Rows mine(rows, group.rank(), slices_);
  std::vector<Tensor> columns;
  for (std::int64_t r = 0; r < slices_; ++r)
    columns.push_back(got[r].narrow(0, 0, mine.count()).narrow(1, 0, Rows(width, r, slices_).count()));
  const Rows written(mine.count(), alike.rank(), alike.size());
  Slice made{slice.name, slice.shape, (mine.begin + written.begin) * width, {}};
  made.part = at::cat(columns, 1).narrow(0, written.begin, written.count()).clone().view(-1);
  return made;
}

}  // namespace hone::training
