// One optimizer update.
#include "train/updater.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/log.h"
#include "base/sections.h"
#include "base/strings.h"
#include "dist/any_of_ranks.h"
#include "nn/take_gradient.h"
#include "nn/weight_groups.h"
#include "ops/backend.h"
#include "ops/finite.h"
#include "ops/passes.h"
#include "optim/blocks.h"
#include "tensor/dtype.h"

namespace hone::training {

namespace {

struct Flat {
  Tensor all;
  std::vector<Tensor> parts;
};

// One piece of memory for these weights, 64 bytes apart at least, seen as a tensor for each; of a multiple of `shares`
// elements.
Flat flat(std::span<const OptimizedWeight> weights, at::ScalarType type, std::int64_t shares) {
  constexpr std::int64_t kUnit = 16;
  const auto room = [](const OptimizedWeight& weight) {
    return (weight.weight->use().numel() + kUnit - 1) / kUnit * kUnit;
  };
  std::int64_t total = 0, at = 0;
  for (const OptimizedWeight& weight : weights) total += room(weight);
  total = (total + shares - 1) / shares * shares;
  const Tensor all = at::empty({total}, weights[0].weight->use().options().dtype(type).requires_grad(false));
  std::vector<Tensor> parts;
  for (const OptimizedWeight& weight : weights) {
    const Tensor& value = weight.weight->use();
    parts.push_back(all.narrow(0, at, value.numel()).view(value.sizes()));
    at += room(weight);
  }
  return {all, parts};
}

// A checkpoint could not hold them, which would be known at the first save.
void check_state_names(Optimizer& optimizer) {
  std::set<std::string> names;
  optimizer.each_state([&](const std::string& name, Tensor&) {
    if (!names.insert(name).second)
      throw Error(ErrorKind::config,
                  fmt::format("optimizer: two tensors of its state are called {}, and no checkpoint could hold both",
                              hone::quoted(name)));
  });
}

}  // namespace

Updater::Updater(Model& model, Optimizer& optimizer, Precision precision, World world, bool sharded, int slices)
    : optimizer_(optimizer), world_(std::move(world)), slices_(slices), mixed_(has_masters(precision)) {
  const c10::NoGradGuard no_grad;
  const at::ScalarType wide = precision == Precision::fp64 ? at::kDouble : at::kFloat;
  const at::ScalarType type = precision == Precision::fp16 ? at::kHalf : mixed_ ? at::kBFloat16 : wide;
  if (sharded) {
    shard(model, type, wide);
  } else {
    collect_weights(model, type);
    make_groups(model, wide);
  }
  optimizer_.attach(weights_);
  check_state_names(optimizer_);
  if (sharded) find_kinds();
}

// In groups, each weight in the type that the run computes in.
void Updater::collect_weights(Model& model, at::ScalarType type) {
  std::map<const Weight*, Tensor> masters;
  model.each_with_adapters([&](const std::string&, Weight& weight) {
    const Tensor loaded = weight.use().detach();
    if (!weight.is_buffer() && loaded.scalar_type() != type) weight.fill(loaded.to(type));
    if (weight.trainable()) masters[&weight] = mixed_ ? loaded : weight.use().detach();
  });
  std::vector<std::size_t> sizes;
  for (const nn::WeightGroup& group : nn::weight_groups(model)) {
    for (const nn::GroupedWeight& one : group.weights)
      weights_.push_back({one.name, one.weight, masters.at(one.weight), {}, {}, one.weight->decays()});
    sizes.push_back(group.weights.size());
  }
  std::span<OptimizedWeight> left(weights_);
  for (const std::size_t size : sizes) groups_.push_back(left.first(size)), left = left.subspan(size);
}

// Masters are the weights as loaded; the weights of a bf16 or fp16 run are their rounding.
void Updater::make_groups(Model& model, at::ScalarType wide) {
  sums_.resize(weights_.size());
  const std::vector<nn::WeightGroup> found = nn::weight_groups(model);
  std::vector<parallel::ReplicaGroup> replicas;
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].index = i;
  for (const std::span<OptimizedWeight> group : groups_) {
    const std::vector<Tensor> masters = mixed_ ? flat(group, wide, 1).parts : std::vector<Tensor>();
    // Where a device makes use of neighbours, such as an MLP's gate and up, they are one factor of a product.
    const Tensor first = group[0].weight->use();
    const bool together = mixed_ && ops::backend_of(first).products.joins_neighbours;
    const std::vector<Tensor> values = together ? flat(group, first.scalar_type(), 1).parts : std::vector<Tensor>();
    const Flat sums = flat(group, wide, world_.size());
    replicas.push_back({found[replicas.size()].unit, sums.all, {}});
    for (std::size_t i = 0; i < group.size(); ++i) {
      OptimizedWeight& weight = group[i];
      if (together) weight.weight->fill(values[i].copy_(weight.weight->use()));
      if (mixed_) weight.master = masters[i].copy_(weight.master), weight.rounded = weight.weight->value().detach();
      sums_[weight.index].sum = sums.parts[i];
      weight.weight->set_gradient_sum(&sums_[weight.index]);
      replicas.back().sums.emplace_back(weight.weight, &sums_[weight.index]);
    }
  }
  if (world_.size() > 1) replicas_ = std::make_unique<parallel::ReplicaSums>(model, world_, std::move(replicas));
}

Updater::~Updater() {
  for (OptimizedWeight& weight : weights_) weight.weight->set_gradient_sum(nullptr);
}

void Updater::end_pass() { sharded_ ? sharded_->end_pass() : add_gradients(); }

void Updater::expect_last_pass() {
  if (replicas_) replicas_->expect_last_pass();
}

void Updater::idle_pass() {
  if (sharded_) sharded_->idle_pass(true);
}

void Updater::idle_forward() {
  if (sharded_) sharded_->idle_pass(false);
}

// What autograd kept, because an op cannot add to the sum itself.
void Updater::add_gradients() {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) nn::take_gradient(*weights_[i].weight, sums_[i]);
}

void Updater::set_gradients(const std::map<std::string, Tensor>& gradients) {
  HONE_ASSERT(!sharded_);
  const c10::NoGradGuard no_grad;
  std::map<std::string, OptimizedWeight*> known;
  for (OptimizedWeight& weight : weights_) known[weight.name] = &weight;
  Problems problems;
  for (const auto& [name, gradient] : gradients) {
    const auto found = known.find(name);
    if (found == known.end())
      problems.add(name, "no weight that is trained has this name");
    else if (!gradient.defined() || gradient.sizes() != found->second->master.sizes())
      problems.add(name, fmt::format("got {}, expected {}", gradient.defined() ? shape_text(gradient.sizes()) : "none",
                                     shape_text(found->second->master.sizes())));
  }
  problems.raise("gradients");
  clear_gradients();
  for (const auto& [name, gradient] : gradients) {
    GradientSum& sum = sums_[known.at(name)->index];
    sum.sum.copy_(gradient).mul_(loss_scale_);
    sum.fill();
  }
}

bool Updater::has_gradients() const {
  return std::any_of(weights_.begin(), weights_.end(),
                     [](const OptimizedWeight& weight) { return weight.gradient.defined(); });
}

void Updater::collect() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    OptimizedWeight& weight = weights_[i];
    if (!sharded_) {
      weight.gradient = sums_[i].full() ? sums_[i].sum : Tensor();
      continue;
    }
    const auto [group, part] = places_[i];
    weight.gradient = any_[group][part] ? sharded_->groups()[group]->gradient(part) : Tensor();
  }
}

void Updater::add_over_ranks() {
  const c10::NoGradGuard no_grad;
  if (sharded_) return hear_of_gradients();
  if (replicas_) replicas_->finish();
}

// Sums are made already.
void Updater::hear_of_gradients() {
  std::vector<bool> own;
  for (const auto& group : sharded_->groups())
    for (std::size_t part = 0; part < group->parts().size(); ++part) own.push_back(group->any_gradient(part));
  const std::vector<bool> any = dist::any_of_ranks(world_, own);
  std::size_t i = 0;
  for (std::vector<bool>& group : any_)
    for (std::size_t part = 0; part < group.size(); ++part) group[part] = any[i++];
}

double Updater::gradient_norm() {
  const sections::Timed section(sections::Section::optimizer);
  collect();
  const double own = optim::sum_of_squares(weights_);
  for (const OptimizedWeight& weight : weights_) ops::count_bytes({weight.gradient});
  return std::sqrt(sharded_ ? world_.total(own) : own) / loss_scale_;
}

void Updater::update(UpdateStep step, double norm, const Clipping& clipping) {
  const sections::Timed section(sections::Section::optimizer);
  const c10::NoGradGuard no_grad;
  collect();
  const double clipped = clipping.norm > 0 ? std::min(1.0, clipping.norm / (norm + 1e-6)) : 1.0;  // as clip_grad_norm_
  step.gradient_scale = clipped / loss_scale_;
  if (clipping.value > 0)
    for (OptimizedWeight& weight : weights_)
      if (const double most = clipping.value / step.gradient_scale; weight.gradient.defined())
        weight.gradient.clamp_(-most, most);
  update_all(step);
  leave_out();
}

void Updater::update_all(UpdateStep step) {
  optimizer_.begin_update(weights_, step);
  for (const std::span<OptimizedWeight> group : groups_) {
    step.learning_rate_scale = group[0].weight->learning_rate_scale();
    update_group(group, step);
  }
  count_update();
}

Tensor Updater::norm_there() {
  if (weights_.empty() || !optimizer_.takes_scale_there()) return {};
  if (const Tensor& one = weights_[0].master; one.is_cpu() || one.is_meta()) return {};
  const sections::Timed section(sections::Section::optimizer);
  const c10::NoGradGuard no_grad;
  collect();
  return has_gradients() ? optim::norm_there(weights_).div_(loss_scale_) : Tensor();
}

void Updater::update_there(UpdateStep step, const Tensor& norm, const Tensor& finite, double most_norm) {
  const sections::Timed section(sections::Section::optimizer);
  const c10::NoGradGuard no_grad;
  const Tensor one = at::ones_like(norm);
  const Tensor clipped = most_norm > 0 ? at::full_like(norm, most_norm).div_(norm + 1e-6).clamp_max_(1) : one;
  step.scale_there =
      at::where(at::isfinite(finite).all(), clipped / loss_scale_, one * std::numeric_limits<double>::quiet_NaN());
  update_all(step);
}

// Each state and master is read and written, a gradient read, what a master is rounded to written.
void Updater::count_update() {
  if (!sections::running()) return;
  using ops::count_bytes;
  for (const OptimizedWeight& w : weights_) count_bytes({w.gradient, w.master, w.master, w.rounded});
  optimizer_.each_state([](const std::string&, Tensor& state) { count_bytes({state, state}); });
}

// At once, or those together that have had the same number of updates.
void Updater::update_group(std::span<OptimizedWeight> group, UpdateStep step) {
  if (had_.empty()) return optimizer_.update(group, step);
  while (!group.empty()) {
    const std::int64_t had = had_[group[0].index];
    const auto end = std::find_if(group.begin(), group.end(),
                                  [&](const OptimizedWeight& weight) { return had_[weight.index] != had; });
    const auto count = static_cast<std::size_t>(end - group.begin());
    step.update = had + 1;
    optimizer_.update(group.first(count), step);
    group = group.subspan(count);
  }
}

void Updater::count_from(const std::function<std::int64_t(const std::string&)>& had) {
  had_.resize(weights_.size());
  for (const OptimizedWeight& weight : weights_) had_[weight.index] = had(weight.name);
}

void Updater::choose(const std::function<bool(const std::string&)>& trained) {
  HONE_ASSERT(!sharded_);
  for (OptimizedWeight& weight : weights_) {
    const bool is = trained(weight.name);
    if (is == weight.weight->value().requires_grad()) continue;
    weight.weight->value().set_requires_grad(is);
    weight.weight->set_gradient_sum(is ? &sums_[weight.index] : nullptr);
  }
}

void Updater::leave_out() {
  clear_gradients();
  if (sharded_) sharded_->release_all();
}

void Updater::take_curvature(double labels) {
  const sections::Timed section(sections::Section::optimizer);
  const c10::NoGradGuard no_grad;
  collect();
  if (loss_scale_ != 1)
    for (OptimizedWeight& weight : weights_)
      if (weight.gradient.defined()) weight.gradient.div_(loss_scale_);
  optimizer_.take_curvature(weights_, labels);
  leave_out();
}

void Updater::each_average(const std::function<void(Slice&)>& visit) {
  if (!optimizer_.averages()) return;
  const c10::NoGradGuard no_grad;
  std::map<std::string, Tensor> here;
  for (const OptimizedWeight& weight : weights_)
    if (Tensor average = optimizer_.average(weight); average.defined()) here[weight.name] = average;
  each_master([&](Slice& slice) {
    const auto found = here.find(slice.name);
    if (found != here.end()) slice.part = found->second;
    if (found != here.end() || sharded_) visit(slice);  // of what is sharded others have a part
  });
}

void Updater::each_average_source(const std::function<void(const std::string&, Tensor&)>& visit) {
  const c10::NoGradGuard no_grad;
  for (const OptimizedWeight& weight : weights_)
    if (Tensor source = optimizer_.average_source(weight); source.defined()) visit(weight.name, source);
}

Updater::Evaluated::Evaluated(Updater& updater) : updater_(updater) {
  if (!updater_.optimizer_.averages()) return;
  const c10::NoGradGuard no_grad;
  for (OptimizedWeight& weight : updater_.weights_) {
    const Tensor average = updater_.optimizer_.average(weight);
    trained_.push_back(average.defined() ? weight.master.clone() : Tensor());
    if (average.defined()) weight.master.copy_(average), updater_.averaged_ = true;
  }
  updater_.restored();
}

Updater::Evaluated::~Evaluated() {
  if (trained_.empty()) return;
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < trained_.size(); ++i)
    if (trained_[i].defined()) updater_.weights_[i].master.copy_(trained_[i]);
  updater_.averaged_ = false;
  try {
    updater_.restored();
  } catch (const Error& error) {  // another rank's weights do not come any more: the run ends, and computes with none
    if (error.kind() != kFailedElsewhere) log::error("after an evaluation: {}", error.what());
  }
}

void Updater::cast_from_masters() {
  if (!mixed_) return;
  const c10::NoGradGuard no_grad;
  for (OptimizedWeight& weight : weights_) weight.rounded.copy_(weight.master);
}

void Updater::clear_gradients() {
  for (OptimizedWeight& weight : weights_) {
    weight.weight->clear_grad();
    weight.gradient = Tensor();
  }
  for (GradientSum& sum : sums_) sum.state = GradientSum::State::empty;
  if (sharded_)
    for (const auto& group : sharded_->groups()) group->clear_sums();
}

std::string Updater::first_not_finite() const {
  std::string own;
  for (const OptimizedWeight& weight : weights_)
    if (own.empty() && weight.gradient.defined() && !ops::all_finite(weight.gradient)) own = weight.name;
  if (!sharded_) return own;
  const std::vector<std::string> all = world_.gather(own);
  const auto found = std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
  return found == all.end() ? "" : *found;
}

std::set<std::string> Updater::bad_gradients() const {
  std::string own;
  for (const OptimizedWeight& weight : weights_)
    if (weight.gradient.defined() && !ops::all_finite(weight.gradient)) own += weight.name + "\n";
  std::set<std::string> names;
  for (const std::string& rank : world_.gather(own))
    for (const std::string& name : split(rank, '\n'))
      if (!name.empty()) names.insert(name);
  return names;
}

bool Updater::weights_finite() const {
  const bool own = std::all_of(weights_.begin(), weights_.end(),
                               [](const OptimizedWeight& weight) { return ops::all_finite(weight.master); });
  return !world_.any(!own);
}

void Updater::each_gradient(const std::function<void(const std::string&, const Tensor&)>& visit) const {
  for (const OptimizedWeight& weight : weights_)
    visit(weight.name, !weight.gradient.defined() ? at::zeros_like(weight.master)
                       : loss_scale_ == 1         ? weight.gradient
                                                  : weight.gradient / loss_scale_);
}

void Updater::each_state(const std::function<void(Slice&)>& visit) {
  if (!sharded_)
    return optimizer_.each_state([&](const std::string& name, Tensor& tensor) {
      Slice whole{name, tensor.sizes().vec(), 0, tensor};
      visit(whole);
    });
  each_slice(kinds_, visit);
}

void Updater::each_master(const std::function<void(Slice&)>& visit) {
  if (sharded_) return each_slice({kMasters}, visit);
  for (OptimizedWeight& weight : weights_) {
    Slice whole{weight.name, weight.master.sizes().vec(), 0, weight.master};
    visit(whole);
  }
}

void Updater::restored() {
  cast_from_masters();
  if (sharded_) sharded_->release_all();
}

}  // namespace hone::training
