// One optimizer update.
#include "train/updater.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/sections.h"
#include "ops/finite.h"
#include "optim/blocks.h"

namespace hone::training {

namespace {

struct Flat {
  Tensor all;
  std::vector<Tensor> parts;
};

// One piece of memory for these weights, 64 bytes apart at least, seen as a tensor for each.
Flat flat(std::span<const OptimizedWeight> weights, at::ScalarType type) {
  constexpr std::int64_t kUnit = 16;
  const auto room = [](const OptimizedWeight& weight) {
    return (weight.weight->use().numel() + kUnit - 1) / kUnit * kUnit;
  };
  std::int64_t total = 0, at = 0;
  for (const OptimizedWeight& weight : weights) total += room(weight);
  const Tensor all = at::empty({total}, weights[0].weight->use().options().dtype(type).requires_grad(false));
  std::vector<Tensor> parts;
  for (const OptimizedWeight& weight : weights) {
    const Tensor& value = weight.weight->use();
    parts.push_back(all.narrow(0, at, value.numel()).view(value.sizes()));
    at += room(weight);
  }
  return {all, parts};
}

// What is gathered, reduced and freed together: 1, 2, ... for the blocks' weights, 0 for the root's, which are all
// others.
std::map<const Weight*, std::size_t> group_numbers(const Model& model) {
  std::map<const Weight*, std::size_t> numbers;
  model.each_weight([&](const std::string&, const Weight& weight) { numbers[&weight] = 0; });
  const std::vector<const Block*> blocks = model.blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i]->each_weight([&](const std::string&, const Weight& weight) { numbers[&weight] = i + 1; });
  return numbers;
}

// An optimizer is told one learning rate for all that it updates at once.
std::vector<std::vector<OptimizedWeight>> by_learning_rate(const std::vector<OptimizedWeight>& weights) {
  std::map<double, std::vector<OptimizedWeight>> by_scale;
  for (const OptimizedWeight& weight : weights) by_scale[weight.weight->learning_rate_scale()].push_back(weight);
  std::vector<std::vector<OptimizedWeight>> made;
  for (const auto& [scale, same] : by_scale) made.push_back(same);
  return made;
}

}  // namespace

Updater::Updater(Model& model, Optimizer& optimizer, Precision precision)
    : optimizer_(optimizer), mixed_(precision == Precision::bf16) {
  const c10::NoGradGuard no_grad;
  const at::ScalarType wide = precision == Precision::fp64 ? at::kDouble : at::kFloat;
  collect_weights(model, mixed_ ? at::kBFloat16 : wide);
  make_groups(wide);
  optimizer_.attach(weights_);
}

// In groups, each weight in the type that the run computes in.
void Updater::collect_weights(Model& model, at::ScalarType type) {
  const auto numbers = group_numbers(model);
  std::vector<std::vector<OptimizedWeight>> groups(model.blocks().size() + 1);
  std::size_t group = 0;
  model.each_with_adapters([&](const std::string& name, Weight& weight) {
    if (const auto own = numbers.find(&weight); own != numbers.end())
      group = own->second;  // an adapter's: its weight's
    const Tensor loaded = weight.use().detach();
    if (!weight.is_buffer() && loaded.scalar_type() != type) weight.fill(loaded.to(type));
    const Tensor master = mixed_ ? loaded : weight.use().detach();
    if (weight.trainable()) groups[group].push_back({name, &weight, master, {}, {}, weight.decays()});
  });
  std::vector<std::size_t> sizes;
  for (const auto& all : groups)
    for (const auto& weights : by_learning_rate(all)) {
      weights_.insert(weights_.end(), weights.begin(), weights.end());
      sizes.push_back(weights.size());
    }
  std::span<OptimizedWeight> left(weights_);
  for (const std::size_t size : sizes) groups_.push_back(left.first(size)), left = left.subspan(size);
}

// Masters are the weights as loaded; the weights of a bf16 run are their rounding.
void Updater::make_groups(at::ScalarType wide) {
  sums_.resize(weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].index = i;
  for (const std::span<OptimizedWeight> group : groups_) {
    const std::vector<Tensor> masters = mixed_ ? flat(group, wide).parts : std::vector<Tensor>();
    const Flat sums = flat(group, wide);
    group_sums_.push_back(sums.all);
    for (std::size_t i = 0; i < group.size(); ++i) {
      OptimizedWeight& weight = group[i];
      if (mixed_) weight.master = masters[i].copy_(weight.master), weight.rounded = weight.weight->value().detach();
      sums_[weight.index].sum = sums.parts[i];
      weight.weight->set_gradient_sum(&sums_[weight.index]);
    }
  }
}

Updater::~Updater() {
  for (OptimizedWeight& weight : weights_) weight.weight->set_gradient_sum(nullptr);
}

// What autograd kept, because an op cannot add to the sum itself.
void Updater::add_gradients() {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Tensor gradient = weights_[i].weight->grad();
    if (!gradient.defined()) continue;
    sums_[i].full() ? sums_[i].sum.add_(gradient) : sums_[i].sum.copy_(gradient);
    sums_[i].fill();
    weights_[i].weight->clear_grad();
  }
}

void Updater::collect() {
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].gradient = sums_[i].full() ? sums_[i].sum : Tensor();
}

void Updater::add_over_ranks(const World& world) {
  if (world.size() == 1) return;
  const c10::NoGradGuard no_grad;
  std::string own;
  for (const GradientSum& sum : sums_) own += sum.full() ? '1' : '0';
  const std::vector<std::string> all = world.gather(own);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i].full()) sums_[i].sum.zero_();
    const bool any = std::any_of(all.begin(), all.end(), [i](const std::string& one) { return one.at(i) == '1'; });
    if (any) sums_[i].fill();
  }
  for (Tensor& piece : group_sums_) world.add_up(piece);
}

double Updater::gradient_norm() {
  const sections::Timed section(sections::Section::optimizer);
  collect();
  return std::sqrt(optim::sum_of_squares(weights_));
}

void Updater::update(std::int64_t step, double learning_rate, double norm, double max_norm) {
  const sections::Timed section(sections::Section::optimizer);
  const c10::NoGradGuard no_grad;
  collect();
  const double scale = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;  // as clip_grad_norm_
  for (const std::span<OptimizedWeight> group : groups_)
    optimizer_.update(group, step, learning_rate * group[0].weight->learning_rate_scale(), scale);
  clear_gradients();
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
}

std::string Updater::first_not_finite() const {
  for (const OptimizedWeight& weight : weights_)
    if (weight.gradient.defined() && !ops::all_finite(weight.gradient)) return weight.name;
  return "";
}

bool Updater::weights_finite() const {
  for (const OptimizedWeight& weight : weights_)
    if (!ops::all_finite(weight.master)) return false;
  return true;
}

void Updater::each_gradient(const std::function<void(const std::string&, const Tensor&)>& visit) const {
  for (const OptimizedWeight& weight : weights_)
    visit(weight.name, weight.gradient.defined() ? weight.gradient : at::zeros_like(weight.master));
}

void Updater::each_state(const std::function<void(const std::string&, Tensor&)>& visit) {
  optimizer_.each_state(visit);
}

void Updater::each_master(const std::function<void(const std::string&, Tensor&)>& visit) {
  for (OptimizedWeight& weight : weights_) visit(weight.name, weight.master);
}

void Updater::restored() { cast_from_masters(); }

}  // namespace hone::training
