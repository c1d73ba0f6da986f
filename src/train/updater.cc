// One optimizer update.
#include "train/updater.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/sections.h"
#include "ops/finite.h"
#include "optim/blocks.h"

namespace hone::training {

namespace {

// One piece of memory for all weights, 64 bytes apart at least, seen as a tensor for each.
std::vector<Tensor> flat(const std::vector<OptimizedWeight>& weights, at::ScalarType type) {
  constexpr std::int64_t kUnit = 16;
  std::int64_t total = 0;
  for (const OptimizedWeight& weight : weights) total += (weight.weight->numel() + kUnit - 1) / kUnit * kUnit;
  const Tensor all =
      at::empty({total}, at::TensorOptions(weights.empty() ? at::kCPU : weights[0].weight->use().device()).dtype(type));
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (const OptimizedWeight& weight : weights) {
    parts.push_back(all.narrow(0, at, weight.weight->numel()).view(weight.weight->shape()));
    at += (weight.weight->numel() + kUnit - 1) / kUnit * kUnit;
  }
  return parts;
}

}  // namespace

Updater::Updater(Model& model, Optimizer& optimizer, Precision precision)
    : optimizer_(optimizer), mixed_(precision == Precision::bf16) {
  const c10::NoGradGuard no_grad;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (weight.trainable()) weights_.push_back({name, &weight, weight.value().detach(), {}, {}, weight.decays()});
    if (mixed_ && weight.use().scalar_type() != at::kBFloat16) weight.fill(weight.value().detach().to(at::kBFloat16));
  });
  const at::ScalarType wide = precision == Precision::fp64 ? at::kDouble : at::kFloat;
  if (mixed_) {  // the master is the weight as loaded; the weight is its rounding
    const std::vector<Tensor> masters = flat(weights_, wide);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i].master = masters[i].copy_(weights_[i].master);
      weights_[i].rounded = weights_[i].weight->value().detach();
    }
  }
  for (const Tensor& sum : flat(weights_, wide)) sums_.push_back({sum});
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].weight->set_gradient_sum(&sums_[i]);
  optimizer_.attach(weights_);
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
    sums_[i].started ? sums_[i].sum.add_(gradient) : sums_[i].sum.copy_(gradient);
    sums_[i].started = true;
    weights_[i].weight->clear_grad();
  }
}

void Updater::collect() {
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].gradient = sums_[i].started ? sums_[i].sum : Tensor();
}

double Updater::gradient_norm() {
  const sections::Timed section(sections::Section::optimizer);
  collect();
  return optim::gradient_norm(weights_);
}

void Updater::update(std::int64_t step, double learning_rate, double norm, double max_norm) {
  const sections::Timed section(sections::Section::optimizer);
  const c10::NoGradGuard no_grad;
  collect();
  const double scale = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;  // as clip_grad_norm_
  optimizer_.update(weights_, step, learning_rate, scale);
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
  for (GradientSum& sum : sums_) sum.started = sum.lent = false;
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
