// What an updater does of which each rank has a share.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "optim/state_names.h"
#include "train/updater.h"

namespace hone::training {
void Updater::shard(Model& model, at::ScalarType type, at::ScalarType wide) {
  if (!optimizer_.is_elementwise())
    throw Error(ErrorKind::config, "parallel.fsdp: the optimizer needs whole weights, which no rank has")
        .hint("leave it out");
  model.each_with_adapters([&](const std::string&, Weight& weight) {  // others become so with their group
    const Tensor loaded = weight.use().detach();
    const bool stays = weight.is_buffer() || weight.trainable() || loaded.scalar_type() == type;
    if (!stays) weight.fill(loaded.to(type));
  });
  const std::vector<nn::WeightGroup> groups = nn::weight_groups(model);
  sharded_ = std::make_unique<parallel::ShardedModel>(model, world_, type, wide);
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
          .hint("leave parallel.fsdp out");
    const std::string kind = name.substr(0, name.size() - weight->name.size());
    if (std::find(own.begin(), own.end(), kind) == own.end()) own.push_back(kind);
    states_[name] = tensor;
  });
  for (const std::string& one : world_.gather(join(own, "\n")))
    if (kinds_.empty() && !one.empty()) kinds_ = split(one, '\n');
}

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
        Slice slice{kind + names_[g][i], part.weight->shape(), part.begin, slice_of(kind, g, i)};
        if (!slice.part.defined()) slice.part = at::empty({0}, sharded_->groups()[g]->master(i).options());
        visit(slice);
      }
}

// Of all but one rank the bits of an element are zero, and so their sum is that one's.
Tensor Updater::whole(const Slice& master) {
  if (!sharded_) return master.part;
  const at::NoGradGuard no_grad;
  const Tensor made = at::zeros(master.shape, master.part.options());
  made.view(-1).narrow(0, master.begin, master.part.numel()).copy_(master.part);
  Tensor bits = made.view(made.scalar_type() == at::kDouble ? at::kLong : at::kInt);
  world_.add_up(bits);
  return made;
}

}  // namespace hone::training
